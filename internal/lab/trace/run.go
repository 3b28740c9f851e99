package trace

import (
	"fmt"
	"io"
)

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
