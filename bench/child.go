package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/quorumkit/redlock"
)

// children are the parts that this program plays when it runs itself: a process
// of a workload is a process of the operating system, with a scheduler, sockets
// and a heap of its own.
var children = map[string]func(ctx context.Context, args []string) error{
	childArg:  tokensChild,
	crowdArg:  plays(crowdChild),
	wakeArg:   plays(wakeChild),
	manyNames: plays(idleChild),
}

// part is what a child is told: which library it opens over which addresses.
type part struct {
	Library    string
	Addrs      []string
	Turns      int // 0: as the library has it
	Name       string
	Goroutines int
}

// openers are the libraries that a child can open.
var openers = map[string]func(context.Context, *env) (contender, error){
	nameRedlock: openRedlock, nameRedsync: openRedsync, nameRueidis: openRueidis, nameOneKey: openRueidisOneKey,
}

func (p *part) open(ctx context.Context) (contender, error) {
	e := &env{addrs: p.Addrs}
	if p.Turns > 0 {
		e.options = append(e.options, redlock.WithTurns(p.Turns))
	}
	f := openers[p.Library]
	if f == nil {
		return nil, fmt.Errorf("no library %q", p.Library)
	}
	return f(ctx, e)
}

// stage is a child's end of the pipes to its parent: it reads a line at a time
// and answers in JSON.
type stage struct {
	in  *bufio.Scanner
	out *json.Encoder
}

// cue waits for the parent's next word; empty: it has none any more.
func (s *stage) cue() string {
	if !s.in.Scan() {
		return ""
	}
	return s.in.Text()
}

// plays opens what the part asks for, says so, and lets the child play it.
func plays(play func(ctx context.Context, p *part, c contender, s *stage) error) func(context.Context, []string) error {
	return func(ctx context.Context, args []string) error {
		p := &part{}
		if err := json.Unmarshal([]byte(strings.Join(args, " ")), p); err != nil {
			return err
		}
		c, err := p.open(ctx)
		if err != nil {
			return err
		}
		s := &stage{bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)}
		if err = pair(ctx, c, "warm:"+p.Name); err == nil {
			if err = s.out.Encode("ready"); err == nil {
				err = play(ctx, p, c, s)
			}
		}
		return errors.Join(err, c.close())
	}
}

// child is the parent's end.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startChild runs this program in a part, and waits until it is ready.
func startChild(ctx context.Context, arg string, p part) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, self, arg, string(text))} //nolint:gosec // this program itself
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, json.NewDecoder(bufio.NewReaderSize(out, 1<<16))
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	var ready string
	if err := c.hear(&ready); err != nil {
		return nil, errors.Join(fmt.Errorf("a child of %s did not begin: %w", p.Library, err), c.end())
	}
	return c, nil
}

// startChildren runs n of them.
func startChildren(ctx context.Context, arg string, n int, p part) (cs []*child, err error) {
	for range n {
		c, err := startChild(ctx, arg, p)
		if err != nil {
			return nil, errors.Join(err, endChildren(cs))
		}
		cs = append(cs, c)
	}
	return cs, nil
}

// say gives the child its cue.
func (c *child) say(word string) error {
	_, err := io.WriteString(c.in, word+"\n")
	return err
}

// hear waits for what the child says next.
func (c *child) hear(v any) error { return c.out.Decode(v) }

// end tells the child that nothing comes any more, and waits until it has gone.
func (c *child) end() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

func endChildren(cs []*child) error {
	var errs []error
	for _, c := range cs {
		errs = append(errs, c.end())
	}
	return errors.Join(errs...)
}
