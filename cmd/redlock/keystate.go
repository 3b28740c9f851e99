package main

import (
	"fmt"

	"github.com/quorumkit/redlock/internal/cli"
)

// keyState is what the nodes say of one resource, taken together.
type keyState string

const (
	keyHeld    keyState = "held"    // a quorum shows one owner, who holds it alone
	keyShared  keyState = "shared"  // a quorum shows one at least of those who share it
	keyFree    keyState = "free"    // nobody is there with a quorum, and a quorum is empty
	keySplit   keyState = "split"   // neither: several attempts are under way, or remains lie about
	keyUnknown keyState = "unknown" // those that say nothing could make the difference
)

// nodeView is what one node contributes.
type nodeView struct {
	counts bool     // it answered, and votes
	shared bool     // its owners share the name
	owners []string // none: the name is free there
}

// judge says the state, and returns on how many nodes the foremost owner stands, and who
// it is where it holds the name alone. A node that does not vote, or says nothing, may
// hide either.
func judge(views []nodeView, quorum int) (state keyState, holder string, most int) {
	type hold struct {
		owner  string
		shared bool
	}
	shown, empty, silent := map[hold]int{}, 0, 0
	var foremost hold
	for _, v := range views {
		switch {
		case !v.counts:
			silent++
		case len(v.owners) == 0:
			empty++
		}
		for _, owner := range v.owners {
			h := hold{owner, v.shared}
			if !v.counts {
				continue
			}
			if shown[h]++; shown[h] > most {
				foremost, most = h, shown[h]
			}
		}
	}
	if !foremost.shared {
		holder = foremost.owner
	}
	switch {
	case most >= quorum && foremost.shared:
		return keyShared, "", most
	case most >= quorum:
		return keyHeld, holder, most
	case empty >= quorum:
		return keyFree, holder, most
	case most+silent >= quorum || empty+silent >= quorum:
		return keyUnknown, holder, most
	}
	return keySplit, holder, most
}

// in words, with the count that goes with it.
func (k keyState) line(most, nodes int) string {
	switch k {
	case keyHeld:
		return fmt.Sprintf("held %d/%d", most, nodes)
	case keyShared:
		return fmt.Sprintf("shared %d/%d", most, nodes)
	case keyFree, keySplit, keyUnknown:
	}
	return string(k)
}

// color is green where all is well, and yellow where somebody should look.
func (k keyState) color() cli.Paint {
	switch k {
	case keyHeld, keyShared, keyFree:
		return cli.Green
	case keySplit, keyUnknown:
	}
	return cli.Yellow
}
