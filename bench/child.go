package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/quorumkit/redlock"
)

// children are the parts that this program plays when it runs itself, by argument: a
// process of a workload is a process of the operating system, with a scheduler, sockets
// and a heap of its own.
var children = map[string]func(ctx context.Context, p *part, c *contender, parent *wire) error{
	tokensArg: tokensChild,
	crowdArg:  crowdChild,
	wakeArg:   wakeChild,
}

// part is what a child is told first: which library it opens over which addresses.
type part struct {
	Library    string
	Addrs      []string
	Turns      int // 0: as the library has it
	Name       string
	Goroutines int
}

// openers are the libraries that a child can open.
var openers = map[string]opener{
	nameRedlock: openRedlock, nameRedsync: openRedsync, nameRueidis: openRueidis, nameOneKey: openRueidisOneKey,
}

// wire is a pipe each way between a child and its parent: what either says is JSON.
type wire struct {
	in  *json.Decoder
	out *json.Encoder
}

// playPart opens what the part asks for, says so, and has the child play it.
func playPart(ctx context.Context, arg string) error {
	parent, p := &wire{json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)}, &part{}
	if err := parent.in.Decode(p); err != nil {
		return err
	}
	e := &env{addrs: p.Addrs}
	if p.Turns > 0 {
		e.options = append(e.options, redlock.WithTurns(p.Turns))
	}
	c, err := openers[p.Library](ctx, e)
	if err != nil {
		return err
	}
	defer c.close() //nolint:errcheck // what it leaves on a busy node lapses, and fails no measurement
	if _, err = pair(ctx, c, "warm:"+p.Name); err == nil {
		err = parent.out.Encode("ready")
	}
	if err != nil {
		return err
	}
	return children[arg](ctx, p, c, parent)
}

// child is the parent's end.
type child struct {
	wire
	end func() error // tells the child that nothing comes any more, and waits until it has gone
}

// startChildren runs this program n times in a part, and waits until they are ready.
func startChildren(ctx context.Context, arg string, n int, p part) (cs []*child, err error) {
	self, err := os.Executable()
	for i := 0; i < n && err == nil; i++ {
		cmd := exec.CommandContext(ctx, self, arg) //nolint:gosec // this program itself
		cmd.Stderr = os.Stderr
		in, errIn := cmd.StdinPipe()
		out, errOut := cmd.StdoutPipe()
		if err = errors.Join(errIn, errOut, cmd.Start()); err != nil {
			break
		}
		c := &child{
			wire{json.NewDecoder(bufio.NewReaderSize(out, 1<<16)), json.NewEncoder(in)},
			func() error { return errors.Join(in.Close(), cmd.Wait()) },
		}
		cs = append(cs, c)
		var ready string
		if err = errors.Join(c.out.Encode(p), c.in.Decode(&ready)); err != nil {
			err = fmt.Errorf("a child of %s did not begin: %w", p.Library, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, endChildren(cs))
	}
	return cs, nil
}

// played gives all of them one cue, and returns what each says then.
func played[T any](cs []*child, cue any) (all []T, err error) {
	for _, c := range cs {
		err = errors.Join(err, c.out.Encode(cue))
	}
	for _, c := range cs {
		var one T
		err = errors.Join(err, c.in.Decode(&one))
		all = append(all, one)
	}
	return all, err
}

func endChildren(cs []*child) (err error) {
	for _, c := range cs {
		err = errors.Join(err, c.end())
	}
	return err
}
