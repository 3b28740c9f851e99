package fencing_test

import (
	"context"
	dbsql "database/sql"
	"net/http"
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// A message says once whose it is, at its beginning.
func TestNoMessageSaysThePackagesNameTwice(t *testing.T) {
	ctx, err := fencing.NewContext(t.Context(), "7", 42)
	testkit.Must(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var guard fencing.Memory
	write := func(ctx context.Context, resource string, token redlock.Token) error {
		return guard.Write(ctx, resource, token, func(context.Context) error { return nil })
	}
	testkit.Must(t, write(ctx, "7", 42))
	sql, err := fencing.NewSQL(fencing.PostgreSQL())
	testkit.Must(t, err)
	_, backwards := fencing.NewContext(ctx, "7", 41)
	_, none := fencing.FromContext(ctx, "8")
	_, missing := fencing.ParseHeader(http.Header{})
	_, malformed := fencing.ParseHeader(http.Header{fencing.Header: {"x"}})
	_, repeated := fencing.ParseHeader(http.Header{fencing.Header: {"1", "2"}})
	_, noKind := fencing.ParseKind(http.Header{fencing.KindHeader: {"x"}})
	_, twoKinds := fencing.ParseKind(http.Header{fencing.KindHeader: {"shared", "shared"}})
	_, exclusive := fencing.NewSharedContext(ctx, "7", 42)
	_, sharer := fencing.Seen{Exclusive: 42}.Accept("7", 42, true)
	_, corrupt := fencing.ParseSeen("x")
	_, tooLarge := fencing.ParseHeader(http.Header{fencing.Header: {"9007199254740992"}})
	_, noDialect := fencing.NewSQL(fencing.Dialect{})
	mysql, err := fencing.NewSQL(fencing.MySQL())
	testkit.Must(t, err)
	_, many := mysql.Statement(ctx, "7", 43)
	sent := &http.Request{Header: http.Header{fencing.Header: {"41"}}}
	for what, err := range map[string]error{
		"stale": write(ctx, "7", 41), "no name": write(ctx, "", 1), "zero": write(ctx, "7", 0), "out of range": write(ctx, "7", redlock.MaxToken+1),
		"ctx is done": write(over, "7", 43), "no transaction": sql.Check(ctx, nil, "7", 43), "no dialect": noDialect,
		"a pool": sql.Check(ctx, new(dbsql.DB), "7", 43), "many statements": many,
		"backwards": backwards, "no token": none, "no header": missing, "malformed": malformed, "repeated": repeated, "too large": tooLarge,
		"no kind": noKind, "two kinds": twoKinds, "not shared": exclusive, "of the other kind": sharer, "corrupt": corrupt,
		"refused by a server": fencing.ResponseError(&http.Response{StatusCode: fencing.StatusStale, Header: http.Header{fencing.HighestHeader: {"42"}}, Request: sent}, "7"),
		"asked for a token":   fencing.ResponseError(&http.Response{StatusCode: fencing.StatusMissing, Request: sent}, "7"),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "fencing: ") || strings.Count(err.Error(), "fencing:") != 1 {
			t.Errorf("%s: got %v; want an error with the package's name once, at the beginning", what, err)
		}
	}
}
