package contenders

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/quorumkit/redlock/internal/lab/tcpproxy"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Two read the same version, and one of them writes. A write that is sent again, since its
// answer was lost, knows its own; what somebody else wrote since is not that.
func TestOfTwoAtWorkOneWrites(t *testing.T) {
	t.Parallel()
	s, err := postgres.start(t.Context())
	if errors.Is(err, errNotInstalled) {
		t.Skip(err)
	}
	testkit.Must(t, err)
	defer s.close()
	proxy, err := tcpproxy.New(s.addrs()[0])
	testkit.Must(t, err)
	defer proxy.Close()
	one, other := opens(t, s.addrs()[0]), opens(t, proxy.Addr())

	a, b := begins(t, one, "two"), begins(t, other, "two")
	if err := a.release(t.Context()); err != nil {
		t.Errorf("got %v of the first write; want it accepted", err)
	}
	if err := b.release(t.Context()); !errors.Is(err, errLate) {
		t.Errorf("got %v of the late write; want %v", err, errLate)
	}

	w := begins(t, other, "again")
	for _, again := range []bool{false, true} {
		if err := w.write(t.Context(), again); err != nil {
			t.Errorf("got %v of a write, sent again: %v; want it accepted", err, again)
		}
	}
	testkit.Must(t, begins(t, one, "again").release(t.Context()))
	if err := w.write(t.Context(), true); !errors.Is(err, errLate) {
		t.Errorf("got %v of what was sent again after another one's write; want %v", err, errLate)
	}

	patient := begins(t, other, "patient")
	proxy.Refuse()
	proxy.Reset()
	brief, cancel := context.WithTimeout(t.Context(), 3*pollEvery)
	defer cancel()
	if err := patient.release(brief); err == nil || brief.Err() == nil {
		t.Errorf("got %v of a write to a server that is away; want an error, at the end of the context", err)
	}
	testkit.Must(t, proxy.Heal())
	if err := patient.release(t.Context()); err != nil {
		t.Errorf("got %v when the server is back; want the write accepted", err)
	}
}

func opens(t *testing.T, addr string) work {
	t.Helper()
	db, err := postgresAt(addr)
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return work{db: db, writer: uuid.NewString()}
}

func begins(t *testing.T, w work, name string) *work {
	t.Helper()
	w.name = name
	testkit.Must(t, w.begin(t.Context()))
	return &w
}
