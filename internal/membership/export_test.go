package membership

import "time"

// What the search of claims asks the rules for (search_claims_test.go).

// GoesBy is the list that a client goes by which knew this, after what the nodes showed.
func (c Config) GoesBy(nodes []Observation, known Claim) []string { return c.goesBy(nodes, known) }

// By is the configuration of a client that goes by this list.
func (c Config) By(list []string) Config {
	c.sorted = list
	return c
}

// Learn is what a client that knew this knows now.
func (v View) Learn(known Claim) Claim { return v.learn(known) }

// Unclaimed is why no vote counts for an acquisition; "": they do.
func (v View) Unclaimed() string { return v.unclaimed() }

// ClaimOn is the claim that a look puts on the blank node i.
func (v View) ClaimOn(i int) Plan { return v.claim(i) }

// Longest is the longest lease that anyone may have taken.
func (v View) Longest() time.Duration { return v.wait() }

// Arg is the claim as a notice has it.
func (c Claim) Arg() string { return c.arg() }

// ClaimOf is the inverse of Arg.
func ClaimOf(text string) Claim { return claimOf(text) }
