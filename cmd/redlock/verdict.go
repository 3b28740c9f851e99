package main

import "fmt"

// verdict is what the nodes say of one resource, taken together.
type verdict string

const (
	verdictHeld    verdict = "held"    // a quorum shows one owner
	verdictFree    verdict = "free"    // nobody is there with a quorum, and a quorum is empty
	verdictSplit   verdict = "split"   // neither: several attempts are under way, or remains lie about
	verdictUnknown verdict = "unknown" // those that say nothing could make the difference
)

// ballot is what one node contributes.
type ballot struct {
	counts bool   // it answered, and votes
	owner  string // empty: the name is free there
}

// judge draws the verdict, and returns on how many nodes the foremost owner
// stands. A node that does not vote, or says nothing, may hide either.
func judge(ballots []ballot, quorum int) (verdict, string, int) {
	shown, empty, silent := map[string]int{}, 0, 0
	owner, most := "", 0
	for _, b := range ballots {
		switch {
		case !b.counts:
			silent++
		case b.owner == "":
			empty++
		default:
			shown[b.owner]++
			if shown[b.owner] > most {
				owner, most = b.owner, shown[b.owner]
			}
		}
	}
	switch {
	case most >= quorum:
		return verdictHeld, owner, most
	case empty >= quorum:
		return verdictFree, owner, most
	case most+silent >= quorum || empty+silent >= quorum:
		return verdictUnknown, owner, most
	}
	return verdictSplit, owner, most
}

// in words, with the count that goes with it.
func (v verdict) line(most, nodes int) string {
	switch v {
	case verdictHeld:
		return fmt.Sprintf("held %d/%d", most, nodes)
	case verdictFree, verdictSplit, verdictUnknown:
	}
	return string(v)
}

// color is green where all is well, and yellow where somebody should look.
func (v verdict) color() paint {
	switch v {
	case verdictHeld, verdictFree:
		return green
	case verdictSplit, verdictUnknown:
	}
	return yellow
}
