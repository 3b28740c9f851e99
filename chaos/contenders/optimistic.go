package contenders

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// versions is no lock: a row for each name, whose version each write raises. Who begins
// reads it, nobody is locked out, and a write counts if the version is still the same.
type versions struct {
	db     *sql.DB
	writer string
}

func openVersions(_ context.Context, addrs []string) (client, error) {
	db, err := openPostgres(addrs[0])
	return &versions{db, uuid.NewString()}, err
}

// acquire begins work: it waits for nobody.
func (c *versions) acquire(ctx context.Context, name string) (lock, error) {
	if _, err := c.db.ExecContext(ctx, "INSERT INTO versions (name) VALUES ($1) ON CONFLICT DO NOTHING", name); err != nil {
		return nil, err
	}
	w := &versionWork{versions: c, name: name}
	if err := c.db.QueryRowContext(ctx, "SELECT version FROM versions WHERE name = $1", name).Scan(&w.version); err != nil {
		return nil, err
	}
	return w, nil
}

func (c *versions) close() error { return c.db.Close() }

// versionWork is work that was begun at a version.
type versionWork struct {
	versions *versions
	name     string
	version  int64
}

// held: it is at work until its write, and nobody tells it before.
func (w *versionWork) held() bool          { return true }
func (w *versionWork) counts() string      { return byWrite }
func (w *versionWork) told() <-chan string { return nil }
func (w *versionWork) fence() string       { return strconv.FormatInt(w.version, 10) }

func (w *versionWork) ask(ctx context.Context) (is bool, err error) {
	err = w.versions.db.QueryRowContext(ctx, "SELECT version = $2 FROM versions WHERE name = $1", w.name, w.version).Scan(&is)
	return is, err
}

// release writes. A write whose answer did not come is sent again.
func (w *versionWork) release(ctx context.Context) error {
	for again := false; ; again = true {
		err := w.write(ctx, again)
		if err == nil || errors.Is(err, errLate) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollEvery):
		}
	}
}

// write finds no row where it comes late, or, sent again, where it had been done before:
// the row says whose write it was.
func (w *versionWork) write(ctx context.Context, again bool) error {
	r, err := w.versions.db.ExecContext(ctx, "UPDATE versions SET version = version + 1, writer = $3 WHERE name = $1 AND version = $2",
		w.name, w.version, w.versions.writer)
	if err != nil {
		return err
	}
	rows, err := r.RowsAffected()
	if err != nil || rows == 1 {
		return err
	}
	own := false
	if again {
		err = w.versions.db.QueryRowContext(ctx, "SELECT version = $2 + 1 AND writer = $3 FROM versions WHERE name = $1",
			w.name, w.version, w.versions.writer).Scan(&own)
	}
	if err == nil && !own {
		return errLate
	}
	return err
}

// What became of a write.
const (
	writeDone    = "accepted"
	writeRefused = "refused"
)

// write has one who is at work write. The record is that of the answer.
func (p *play) write(ctx context.Context, a *actor) (string, record, error) {
	from := monotonic()
	if err := a.do(doRelease, "", patience); err != nil {
		return "", record{}, err
	}
	r, err := p.await(ctx, a.who, from, patience+callBound, released)
	switch {
	case err != nil:
		return "", r, err
	case r.Text == errLate.Error():
		return writeRefused, r, nil
	case r.Text != "":
		return r.Text, r, nil
	default:
		return writeDone, r, nil
	}
}

// nextWrite has the second write, who was at work beside the holder.
func (p *play) nextWrite(ctx context.Context, o *outcome, b *actor, from int64) error {
	became, r, err := p.write(ctx, b)
	if err == nil && became == writeDone {
		o.Next = max(between(from, r.At), time.Microsecond)
	}
	return err
}

// lateWrite has the holder write, after the second one did.
func (p *play) lateWrite(ctx context.Context, o *outcome, a *actor) error {
	became, _, err := p.write(ctx, a)
	o.Write = became
	return err
}

// bothWrite is the aftermath where nobody was locked out.
func (p *play) bothWrite(ctx context.Context, o *outcome, a, b *actor, from int64) error {
	if err := p.nextWrite(ctx, o, b, from); err != nil {
		return err
	}
	pause(ctx, watchFor) // for the picture
	if err := p.lateWrite(ctx, o, a); err != nil {
		return err
	}
	o.judge(p.trace(), a.who, o.zero)
	return nil
}

// takeTurns is the hand-over where nobody is locked out: one writes, the other one's write
// is late, and it begins again. Next is from the first write to that.
func (p *play) takeTurns(ctx context.Context, o *outcome, a, b *actor) error {
	var took []time.Duration
	o.Write = writeRefused
	for i := range rounds {
		pause(ctx, warmUp/2)
		from := monotonic()
		became, r, err := p.write(ctx, a)
		if err != nil {
			return err
		}
		if became != writeDone {
			return errors.New("the first write: " + became)
		}
		if i == 0 {
			o.zero = r.At
		}
		if became, _, err = p.write(ctx, b); err != nil {
			return err
		}
		if became != writeRefused {
			o.Write = became
		}
		got, err := p.hold(ctx, b)
		if err != nil {
			return err
		}
		took = append(took, between(from, got.At))
		if _, err := p.hold(ctx, a); err != nil { // beside it
			return err
		}
		a, b = b, a
	}
	slices.Sort(took)
	o.Next, o.Repeated = took[len(took)/2], len(took)
	o.judge(p.trace(), "", 0)
	return nil
}
