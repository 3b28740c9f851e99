package main

import "fmt"

// keyState is what the nodes say of one resource, taken together.
type keyState string

const (
	keyHeld    keyState = "held"    // a quorum shows one owner
	keyFree    keyState = "free"    // nobody is there with a quorum, and a quorum is empty
	keySplit   keyState = "split"   // neither: several attempts are under way, or remains lie about
	keyUnknown keyState = "unknown" // those that say nothing could make the difference
)

// nodeView is what one node contributes.
type nodeView struct {
	counts bool   // it answered, and votes
	owner  string // empty: the name is free there
}

// judge says the state, and returns on how many nodes the foremost owner
// stands. A node that does not vote, or says nothing, may hide either.
func judge(views []nodeView, quorum int) (keyState, string, int) {
	shown, empty, silent := map[string]int{}, 0, 0
	owner, most := "", 0
	for _, v := range views {
		switch {
		case !v.counts:
			silent++
		case v.owner == "":
			empty++
		default:
			shown[v.owner]++
			if shown[v.owner] > most {
				owner, most = v.owner, shown[v.owner]
			}
		}
	}
	switch {
	case most >= quorum:
		return keyHeld, owner, most
	case empty >= quorum:
		return keyFree, owner, most
	case most+silent >= quorum || empty+silent >= quorum:
		return keyUnknown, owner, most
	}
	return keySplit, owner, most
}

// in words, with the count that goes with it.
func (k keyState) line(most, nodes int) string {
	switch k {
	case keyHeld:
		return fmt.Sprintf("held %d/%d", most, nodes)
	case keyFree, keySplit, keyUnknown:
	}
	return string(k)
}

// color is green where all is well, and yellow where somebody should look.
func (k keyState) color() paint {
	switch k {
	case keyHeld, keyFree:
		return green
	case keySplit, keyUnknown:
	}
	return yellow
}
