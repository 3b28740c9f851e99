// Package trace has what happened in a run of the lab, as records, and the judge that says
// which rules they break.
package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/quorumkit/redlock"
)

// Kind says what a [Record] is about.
type Kind string

// The kinds. What each needs beside At is in brackets; the rest may be empty.
const (
	// Asked: an attempt to acquire begins (Client, Resource, Hold; Shared, Set, Limit, Value, Barging). Since:
	// what its process left on a node when it last stood in line there is as old as that.
	Asked Kind = "asked"
	// Failed: the attempt brought no lock; the client still wants one, and its
	// next Asked has a new Hold (Client, Resource, Hold).
	Failed Kind = "failed"
	// Quit: the client no longer wants the resource (Client, Resource; Limit).
	Quit Kind = "quit"
	// Held: the client believes from here on that it holds the resource, up to
	// Until, if that is given (Client, Resource, Hold; Shared, Set, Limit, Slot, Untold). Ends: its
	// library gives it up by itself then.
	Held Kind = "held"
	// Extended: the client believes now that it holds up to Until (Hold).
	Extended Kind = "extended"
	// Released: the client gives the resource up. It stands before the call, as
	// Held stands behind it: belief ends when the call begins (Hold).
	Released Kind = "released"
	// Lost: the client learns that it holds no longer (Hold).
	Lost Kind = "lost"
	// Told: its library tells the client so, unasked: as [Hold.Lost] closes, of a lock
	// that its client did not give up (Hold).
	Told Kind = "told"
	// Wrote: the protected resource accepted a write (Resource, Hold, and Token
	// if it was shown one).
	Wrote Kind = "wrote"
	// Refused: the guard refused a write as stale (Resource, Hold, Token).
	Refused Kind = "refused"
	// Cleaned: a node executed a release or rollback of Owner (Node, Owner).
	Cleaned Kind = "cleaned"
	// Shown: a node shows Owner in the key of Resource; Until is when the key
	// will expire, 0 if never (Node, Owner, Resource). Of a key that several share there
	// is one for each of them, one after another, at one time: Until is when that one's
	// lease ends, and Ends is when the key will expire (Shared, Ends).
	Shown Kind = "shown"
	// Saw: an observer of Resource was told who holds it: the one that asked with Value; without
	// one, that nobody does (Client, Resource; Value, Token).
	Saw Kind = "saw"
	// Sick: from here on the cluster need not make progress.
	Sick Kind = "sick"
	// Well: a quorum is healthy again. A trace begins so.
	Well Kind = "well"
	// Queued: the client's process stands in line for Resource, on a quorum of
	// nodes that hear that it lives: without a break since Since (Client, Resource;
	// Shared: in the line of those who wait to share it; Limit: for a slot of it).
	Queued Kind = "queued"
	// Unqueued: it does so no longer (Client, Resource; Shared, Limit).
	Unqueued Kind = "unqueued"
	// Granted: a node tells the client that a release granted it the resource, by Token.
	// One node's word is no lock yet (Client, Resource, Node, Token).
	Granted Kind = "granted"
	// Broke: a fault begins (Fault, and Node if it is of one node; Text says it in words;
	// For a change of the list, Value has the numbers of its nodes.
	Broke Kind = "broke"
	// Mended: a fault ends (Fault, Node and Value, as it began).
	Mended Kind = "mended"
	// Stored: from here on the node has the key of Resource for attempt Hold of
	// Client, until Until or the next such record; without Client it has none
	// (Node, Resource). Without Hold it is for one of the attempts that Client's process
	// was at as of Since, when it first sent the owner value. Of a key that several share there is one for each of them, beside
	// the others; without Until, that one is gone (Shared).
	Stored Kind = "stored"
	// Turned: from here on the node is what Text says: [Member], [Blank] or
	// [Silent] (Node).
	Turned Kind = "turned"
	// Began: a run begins, and time with it; the records up to the next one are
	// its own (About).
	Began Kind = "began"
	// Listed: from here on the node's record has a configuration (Node; Value: the names of its
	// list; Text: its generation, its cluster, its MaxTTL, and "strict" if recovery is so). Without
	// a MaxTTL neither that nor strict is judged.
	Listed Kind = "listed"
	// Noted: anything else that is worth a line; Text says what.
	Noted Kind = "noted"
)

// What a node that [Turned] is.
const (
	Member = "member" // it has its memory, and may vote
	Blank  = "blank"  // it answers, but has forgotten: redlock does not let it vote
	Silent = "silent" // it does not answer
)

// Record is one line of a trace.
type Record struct {
	// At is when, since the trace began: one time base for all clients.
	At   time.Duration `json:"at"`
	Kind Kind          `json:"kind"`
	// Hold is the number of the attempt, and of the lock that came of it: no two
	// attempts of a trace share one.
	Hold     int64         `json:"hold,omitempty"`
	Client   string        `json:"client,omitempty"`
	Resource string        `json:"resource,omitempty"`
	Node     string        `json:"node,omitempty"`
	Owner    string        `json:"owner,omitempty"`
	Token    redlock.Token `json:"token,omitempty"`
	Until    time.Duration `json:"until,omitempty"`
	Since    time.Duration `json:"since,omitempty"`
	Ends     time.Duration `json:"ends,omitempty"`
	// Shared: beside other shared holds, never beside an exclusive one.
	Shared bool `json:"shared,omitempty"`
	// Set is the number of a set of resources that are asked for together: each has an
	// attempt of its own, and those of one set have one number. 0 if none.
	Set int64 `json:"set,omitempty"`
	// Limit is how many may hold the resource at once, each of them a slot of its own. 0: it
	// has no slots. Who is alone or shares excludes nobody who has a slot.
	Limit int `json:"limit,omitempty"`
	// Slot is which one it is, from 0 to Limit-1.
	Slot int `json:"slot,omitempty"`
	// Barging: it is asked for past those who wait in line.
	Barging bool `json:"barging,omitempty"`
	// Untold: its library never tells of a loss, so that nobody waits to be told.
	Untold bool `json:"untold,omitempty"`
	// Value is what observers are told of who holds.
	Value string `json:"value,omitempty"`
	Text  string `json:"text,omitempty"`
	Fault *Fault `json:"fault,omitempty"`
	About *About `json:"about,omitempty"`
}

// Write writes records as JSON lines, times in nanoseconds: what
// [Read] reads. It returns w's error.
func Write(w io.Writer, records []Record) error {
	buffered := bufio.NewWriter(w)
	lines := json.NewEncoder(buffered)
	for _, r := range records {
		if err := lines.Encode(r); err != nil {
			return fmt.Errorf("chaos: write trace: %w", err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("chaos: write trace: %w", err)
	}
	return nil
}

// Read reads JSON lines up to the end of r. It fails with the number of the
// line that is not a record, or has a field that records do not have.
func Read(r io.Reader) ([]Record, error) {
	lines := json.NewDecoder(r)
	lines.DisallowUnknownFields()
	var records []Record
	for {
		var rec Record
		err := lines.Decode(&rec)
		switch {
		case errors.Is(err, io.EOF):
			return records, nil
		case err != nil:
			return nil, fmt.Errorf("chaos: read trace: record %d: %w", len(records)+1, err)
		}
		records = append(records, rec)
	}
}

// Run is one play of something on a stage: what it was, its trace, and what a
// judge made of it.
type Run struct {
	About   About
	Records []Record
	Verdict Verdict
}

// About says what a run was. All of it may be empty: a trace from elsewhere.
type About struct {
	Scenario  string   `json:"scenario,omitempty"`
	Claim     string   `json:"claim,omitempty"`
	Lesson    string   `json:"lesson,omitempty"`
	Contender string   `json:"contender,omitempty"` // the name of the kit
	Guarded   bool     `json:"guarded,omitempty"`
	Backend   string   `json:"backend,omitempty"`
	Seed      uint64   `json:"seed,omitempty"`
	Nodes     []string `json:"nodes,omitempty"` // their names, in order
	Claimed   *Showing `json:"claimed,omitempty"`
	Judge     Judge    `json:"judge,omitzero"`
}

// AsClaimed tells whether the run showed what was claimed; known is false where
// nothing was.
func (r Run) AsClaimed() (as, known bool) {
	if r.About.Claimed == nil {
		return false, false
	}
	return r.About.Claimed.Fits(r.Verdict), true
}

// WriteRuns writes runs one after another as [Write] writes records, each
// behind a record that says what it is about: what [ReadRuns] reads.
func WriteRuns(w io.Writer, runs ...Run) error {
	for _, r := range runs {
		if err := Write(w, append([]Record{{Kind: Began, About: &r.About}}, r.Records...)); err != nil {
			return err
		}
	}
	return nil
}

// ReadRuns reads what [WriteRuns] wrote, or a trace, which is one run about
// nothing, and judges each. It fails as [Read] does, and where there is no
// record.
func ReadRuns(r io.Reader) ([]Run, error) {
	records, err := Read(r)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("chaos: read runs: %w", io.ErrUnexpectedEOF)
	}
	var runs []Run
	for i, rec := range records {
		if rec.Kind == Began || i == 0 {
			runs = append(runs, Run{})
		}
		last := &runs[len(runs)-1]
		switch {
		case rec.Kind != Began:
			last.Records = append(last.Records, rec)
		case rec.About != nil:
			last.About = *rec.About
		}
	}
	for i := range runs {
		runs[i].Verdict = runs[i].About.Judge.Judge(runs[i].Records)
	}
	return runs, nil
}
