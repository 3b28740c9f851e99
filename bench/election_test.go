package main

import (
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
)

// With a leader that resigns, each library has a next one long before a lease would end.
func TestTheNextLeadsWhenTheLeaderResigns(t *testing.T) {
	r := &run{quick: true}
	for _, s := range chaos.NeedServers(t, nodes, chaos.ServerConfig{}) {
		r.servers = append(r.servers, newServer(s))
	}
	if err := r.servers.found(t.Context()); err != nil {
		t.Fatal(err)
	}
	field := []*electionRunner{{library: nameRedlock, addrs: r.servers.addrs()}}
	note, stop, err := r.besideEtcd(t.Context(), &field)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	t.Log(note)
	for _, f := range field {
		took, err := r.succession(t.Context(), f, endResigns)
		if err != nil || took <= 0 || took > electionTTL/2 {
			t.Errorf("%s: got %v, %v; want less than %v", f.library, took, err, electionTTL/2)
		}
		t.Log(f.library, took.Round(time.Millisecond))
	}
}
