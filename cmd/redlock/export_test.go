package main

import "github.com/redis/go-redis/v9"

// Ballot is a ballot, for the tests.
type Ballot struct {
	Counts bool
	Owner  string
}

// Judge is judge, for the tests.
func Judge(ballots []Ballot, quorum int) (says, owner string, most int) {
	in := make([]ballot, len(ballots))
	for i, b := range ballots {
		in[i] = ballot{b.Counts, b.Owner}
	}
	v, owner, most := judge(in, quorum)
	return string(v), owner, most
}

// Redact is redact, for the tests.
var Redact = redact

// TakeArguments is takeArguments, for the tests.
var TakeArguments = takeArguments

// CloseFleet closes a fleet of one client, for the tests.
func CloseFleet(c *redis.Client) error { return (&fleet{clients: []*redis.Client{c}}).close() }
