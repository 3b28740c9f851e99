package contenders

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// sessionLocks is locks that live by a session with a database: the server ends them
// when it ends the session, and it does that when a lease has passed without a query.
type sessionLocks struct {
	db     *sql.DB
	settle string // what has the server end a silent session
	take   func(ctx context.Context, conn *sql.Conn, name string) error
	give   func(ctx context.Context, conn *sql.Conn, name string) error
}

// acquire waits in the server, on a connection of its own.
func (c *sessionLocks) acquire(ctx context.Context, name string) (lock, error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err = conn.ExecContext(ctx, c.settle); err == nil {
		err = c.take(ctx, conn, name)
	}
	// When the lock came is not known to the millisecond, so the lease is counted from
	// the next query.
	sent := monotonic()
	if err == nil {
		err = query(ctx, conn)
	}
	if err != nil {
		return nil, errors.Join(err, discard(conn))
	}
	l := &sessionLock{locks: c, conn: conn, name: name}
	l.renewed = renew(sent, bySession, func(ctx context.Context) error {
		if err := query(ctx, conn); err != nil {
			return errors.Join(errNotHeld, err) // what is left of the session is not this one
		}
		return nil
	})
	return l, nil
}

func (c *sessionLocks) close() error { return c.db.Close() }

func query(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "SELECT 1")
	return err
}

// discard closes the connection, rather than to give it back to the pool.
func discard(conn *sql.Conn) error {
	err := conn.Raw(func(any) error { return driver.ErrBadConn }) // so the pool drops it
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

type sessionLock struct {
	*renewed
	locks *sessionLocks
	conn  *sql.Conn
	name  string
}

func (l *sessionLock) fence() string { return "" }

// ask: as long as the session answers, it has its locks.
func (l *sessionLock) ask(ctx context.Context) (bool, error) {
	err := query(ctx, l.conn)
	return err == nil, err
}

func (l *sessionLock) release(ctx context.Context) error {
	l.end()
	err := l.locks.give(ctx, l.conn, l.name)
	return errors.Join(err, discard(l.conn))
}
