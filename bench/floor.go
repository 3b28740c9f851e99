package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// errTaken is a round that a quorum did not grant.
var errTaken = errors.New("taken")

// floor is what the protocol costs at the least in this language: one goroutine,
// a socket per node, the library's single scripts, a wait for the quorum, and
// none of what makes a library (timers, retries, rollback, errors per node,
// contexts). A connection answers in order, so a reply left behind by one round
// is skipped by the next.
type floor struct {
	scripts *scripts
	nodes   []*floorNode
	replies chan floorReply
	round   int
	buf     []byte
	owner   [36]byte
	key     string
	votes   []int64
}

type floorNode struct {
	conn  net.Conn
	epoch string
}

// floorReply is the answer of one node to one round.
type floorReply struct {
	node, round int
	value       int64
	err         error
}

func openFloor(ctx context.Context, e *env) (contender, error) {
	f := &floor{scripts: e.scripts, replies: make(chan floorReply, 64*len(e.servers)), votes: make([]int64, len(e.servers))}
	for i, srv := range e.servers {
		if err := e.scripts.load(ctx, srv); err != nil {
			return nil, errors.Join(err, f.close())
		}
		epoch, err := epochOf(ctx, srv)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		conn, err := dial(ctx, e.addrs[i])
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.nodes = append(f.nodes, &floorNode{conn: conn, epoch: epoch})
		go f.read(i, bufio.NewReader(conn)) // ends when close closes the connection
	}
	return f, nil
}

// read hands on one node's replies, numbered by round.
func (f *floor) read(node int, r *bufio.Reader) {
	for round := 1; ; round++ {
		value, err := readInt(r)
		f.replies <- floorReply{node, round, value, err}
		if err != nil {
			return
		}
	}
}

// newOwner writes a fresh random UUID of version 4.
func newOwner(dst *[36]byte) {
	var raw [16]byte
	for i := 0; i < 16; i += 8 {
		v := rand.Uint64()
		for j := range 8 {
			raw[i+j] = byte(v >> (8 * j)) //nolint:gosec // the low byte is what is meant
		}
	}
	raw[6], raw[8] = raw[6]&0x0f|0x40, raw[8]&0x3f|0x80
	hex.Encode(dst[0:8], raw[0:4])
	hex.Encode(dst[9:13], raw[4:6])
	hex.Encode(dst[14:18], raw[6:8])
	hex.Encode(dst[19:23], raw[8:10])
	hex.Encode(dst[24:36], raw[10:16])
	dst[8], dst[13], dst[18], dst[23] = '-', '-', '-', '-'
}

func (f *floor) acquire(_ context.Context, resource string) (held, error) {
	newOwner(&f.owner)
	owner := string(f.owner[:])
	f.key = resource
	stripe, hint := stripeOf(resource), time.Now().UnixMicro()
	for _, n := range f.nodes {
		b := appendEval(f.buf[:0], f.scripts.acquire, 3, 5)
		b = appendBulk(b, resource)
		b = appendBulk(b, nodeKey)
		b = appendBulk(b, deadPrefix+owner)
		b = appendBulk(b, owner)
		b = appendInt(b, ttl.Milliseconds())
		b = appendInt(b, hint)
		b = appendInt(b, stripe)
		f.buf = appendBulk(b, n.epoch)
		if _, err := n.conn.Write(f.buf); err != nil {
			return nil, err
		}
	}
	token, err := f.gather()
	if err != nil {
		return nil, err
	}
	if token == 0 {
		return nil, fmt.Errorf("the nodes' counters differ: %v", f.votes)
	}
	return f, nil
}

// gather waits until a quorum gave the same token. Alone on its names, one
// goroutine meets no other value; a round that does is an error, not a cost.
func (f *floor) gather() (int64, error) {
	f.round++
	clear(f.votes)
	for got := 0; got < len(f.nodes); {
		r := <-f.replies
		if r.err != nil {
			return 0, r.err
		}
		if r.round < f.round {
			continue
		}
		got++
		f.votes[r.node] = r.value
		if t, same := agreed(f.votes); same > len(f.nodes)/2 {
			if t < 0 {
				return 0, errTaken
			}
			return t, nil
		}
	}
	return 0, nil
}

// agreed returns the commonest of the votes that were given (a vote of zero was
// not), and how many gave it.
func agreed(votes []int64) (int64, int) {
	var best int64
	most := 0
	for _, v := range votes {
		same := 0
		for _, w := range votes {
			if w == v && v != 0 {
				same++
			}
		}
		if same > most {
			best, most = v, same
		}
	}
	return best, most
}

func (f *floor) extend(context.Context) error { return errUnsupported }

func (f *floor) release(context.Context) error {
	b := appendEval(f.buf[:0], f.scripts.release, 1, 1)
	b = appendBulk(b, f.key)
	f.buf = appendBulk(b, string(f.owner[:]))
	for _, n := range f.nodes {
		if _, err := n.conn.Write(f.buf); err != nil {
			return err
		}
	}
	f.round++
	for deleted := 0; deleted <= len(f.nodes)/2; {
		r := <-f.replies
		if r.err != nil {
			return r.err
		}
		if r.round == f.round {
			deleted++
		}
	}
	return nil
}

func (f *floor) close() error {
	var errs []error
	for _, n := range f.nodes {
		errs = append(errs, n.conn.Close())
	}
	return errors.Join(errs...)
}
