package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"
)

// TestMain lets the test binary be what the workloads' parents start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		if err := children[os.Args[1]](context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// recordsOf are holds a millisecond apart, by these goroutines.
func recordsOf(who ...int) (holds []holdRecord) {
	for i, w := range who {
		holds = append(holds, holdRecord{At: int64(i) * int64(time.Millisecond), Wait: int64(time.Millisecond), Who: w, Token: uint64(10 + i)})
	}
	return holds
}

func TestWhatTheLastHolderTookAgainIsNoHandOver(t *testing.T) {
	n, fenced := changesOf(recordsOf(1, 1, 2, 2, 2, 1))
	if n != 2 || !fenced {
		t.Errorf("got %d changes, fenced %v; want 2, true", n, fenced)
	}
	holds := recordsOf(1, 2, 3)
	holds[2].Token = holds[1].Token
	if _, fenced := changesOf(holds); fenced {
		t.Error("a token that does not grow: got fenced; want not")
	}
	holds = recordsOf(1, 2)
	holds[0].Token, holds[1].Token = 0, 0
	if n, fenced := changesOf(holds); n != 1 || !fenced {
		t.Errorf("a library without tokens: got %d changes, fenced %v; want 1, true", n, fenced)
	}
}

func TestSharesAndWaitsOfACrowd(t *testing.T) {
	var s crowdSlice
	holds := recordsOf(0, 1, 0, 1, 0, 1, 0, 0)
	holds[3].Wait = 9 * int64(time.Millisecond)
	s.judge(holds, 2, time.Second)
	if s.perSecond != 6 || s.least != 0.75 || s.most != 1.25 {
		t.Errorf("got %v a second, shares %v to %v; want 6, 0.75 to 1.25", s.perSecond, s.least, s.most)
	}
	if want := []float64{9 * 8 / 16.0}; !slices.Equal(s.longest, want) {
		t.Errorf("longest wait: got %v; want %v", s.longest, want)
	}
	if math.Abs(s.again-1/8.0) > 1e-9 {
		t.Errorf("taken again: got %v; want one of eight", s.again)
	}
	s = crowdSlice{}
	s.judge(nil, 2, time.Second)
	if s.perSecond != 0 || s.least != 0 {
		t.Errorf("nobody held it: got %v a second, least share %v; want 0, 0", s.perSecond, s.least)
	}
}

// A crowd is of real processes, all of which have their share.
func TestProcessesHandANameOn(t *testing.T) {
	r := &run{servers: newTestEnv(t).servers, rounds: 1, quick: true}
	for _, runner := range handoverField() {
		if runner.library != nameRedlock {
			continue
		}
		s, err := r.crowded(t.Context(), runner, crowd{2, 2}, 2*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if s.perSecond <= 0 || s.least <= 0 || s.commands <= 0 {
			t.Errorf("%s: got %+v; want hand-overs, a share for everybody, and commands", runner.name, s)
		}
	}
}

func TestANameGoesToAndFro(t *testing.T) {
	r := &run{servers: newTestEnv(t).servers}
	for _, library := range []string{nameRedlock, nameRedsync} {
		w := &wakeRunner{library: library, masters: nodes, turns: 4}
		if err := r.toAndFro(t.Context(), w, r.servers.addrs()); err != nil {
			t.Fatalf("%s: %v", library, err)
		}
		if len(w.samples) != w.turns || slices.Min(w.samples) <= 0 {
			t.Errorf("%s: got %v; want %d times, all positive", library, w.samples, w.turns)
		}
	}
}
