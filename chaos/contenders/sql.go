package contenders

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
)

const (
	advisoryName  = "PostgreSQL advisory lock"
	forUpdateName = "PostgreSQL FOR UPDATE"
	rowName       = "PostgreSQL row with expiry"
	versionName   = "PostgreSQL optimistic version"
	sqlServers    = "1 server, on disk"
)

var (
	advisorySpec = spec{
		name: advisoryName, module: "github.com/jackc/pgx/v5", servers: sqlServers,
		fence: "none", notice: "nobody; the session's next query fails",
		start: startPostgres, open: openAdvisory,
	}
	forUpdateSpec = spec{
		name: forUpdateName, module: "github.com/jackc/pgx/v5", servers: sqlServers,
		fence: "the transaction itself, for what is written in it", notice: "nobody; the transaction's next query fails",
		start: startPostgres, open: openForUpdate,
	}
	rowSpec = spec{
		name: rowName, module: "github.com/jackc/pgx/v5", servers: sqlServers,
		fence: "a column that counts", notice: "nobody; the next UPDATE finds no row",
		start: startPostgres, open: openRow,
	}
	optimisticSpec = spec{
		name: versionName, module: "github.com/jackc/pgx/v5", servers: sqlServers,
		fence: "the row's version; no lock", notice: "nobody; a late write finds no row",
		start: startPostgres, open: openVersions, optimistic: true,
	}
)

func startPostgres(ctx context.Context) (*system, error) {
	initdb, err := lookFor("initdb", "postgresql", "/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return nil, err
	}
	if path, err := filepath.EvalSymlinks(initdb); err == nil {
		initdb = path
	}
	s, err := newSystem("postgres")
	if err != nil {
		return nil, err
	}
	ports, err := s.freePorts(1)
	data := filepath.Join(s.dir, "data")
	if err = errors.Join(err, s.unprivileged()); err == nil {
		err = s.runOnce(ctx, initdb, "-D", data, "-U", "contenders", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.add(&proc{
		path: filepath.Join(filepath.Dir(initdb), "postgres"), address: local(ports[0]), clock: true,
		args: []string{
			"-D", data, "-p", strconv.Itoa(ports[0]), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=" + s.dir, "-c", "max_connections=60", "-c", "shared_buffers=16MB",
		},
	})
	return s.begin(ctx, func(ctx context.Context, addrs []string) error {
		return s.createLocks(ctx, addrs[0])
	})
}

// createLocks is also the sign that the server is ready.
func (s *system) createLocks(ctx context.Context, addr string) error {
	db, err := openPostgres(addr)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.QueryRowContext(ctx, "SELECT 'PostgreSQL ' || current_setting('server_version')").Scan(&s.version); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS locks (
		name text PRIMARY KEY, owner text, token bigint NOT NULL DEFAULT 0, until timestamptz NOT NULL DEFAULT '-infinity');
		CREATE TABLE IF NOT EXISTS versions (name text PRIMARY KEY, version bigint NOT NULL DEFAULT 0, writer text)`)
	return err
}

func openPostgres(addr string) (*sql.DB, error) {
	return sql.Open("pgx", "postgres://contenders@"+addr+"/postgres?sslmode=disable&connect_timeout=5")
}

// openAdvisory: the lock is the session's, and the server ends a session that says
// nothing for a lease.
func openAdvisory(_ context.Context, addrs []string) (client, error) {
	db, err := openPostgres(addrs[0])
	return &sessionLocks{
		db:     db,
		settle: "SET idle_session_timeout = " + strconv.FormatInt(lease.Milliseconds(), 10),
		take: func(ctx context.Context, conn *sql.Conn, name string) error {
			_, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", name)
			return err
		},
		give: func(ctx context.Context, conn *sql.Conn, name string) error {
			_, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", name)
			return err
		},
	}, err
}

// openForUpdate: the lock is the transaction's, and the server ends one that says
// nothing for a lease.
func openForUpdate(_ context.Context, addrs []string) (client, error) {
	db, err := openPostgres(addrs[0])
	return &sessionLocks{
		db:     db,
		settle: "SET idle_in_transaction_session_timeout = " + strconv.FormatInt(lease.Milliseconds(), 10),
		take: func(ctx context.Context, conn *sql.Conn, name string) error {
			if _, err := conn.ExecContext(ctx, "INSERT INTO locks (name) VALUES ($1) ON CONFLICT DO NOTHING", name); err != nil {
				return err
			}
			if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
				return err
			}
			_, err := conn.ExecContext(ctx, "SELECT name FROM locks WHERE name = $1 FOR UPDATE", name)
			return err
		},
		give: func(ctx context.Context, conn *sql.Conn, _ string) error {
			_, err := conn.ExecContext(ctx, "COMMIT")
			return err
		},
	}, err
}

// rowLocks is a row for each name, with an owner, an expiry by the server's clock, and
// a number that each new owner raises.
type rowLocks struct {
	db    *sql.DB
	owner string
}

func openRow(_ context.Context, addrs []string) (client, error) {
	db, err := openPostgres(addrs[0])
	return &rowLocks{db, uuid.NewString()}, err
}

func (c *rowLocks) acquire(ctx context.Context, name string) (lock, error) {
	token, sent, err := poll(ctx, func() (token int64, taken bool, err error) {
		err = c.db.QueryRowContext(ctx, `INSERT INTO locks AS l (name, owner, token, until)
			VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 ms')
			ON CONFLICT (name) DO UPDATE SET owner = $2, token = l.token + 1, until = clock_timestamp() + $3 * interval '1 ms'
			WHERE l.until < clock_timestamp() RETURNING token`, name, c.owner, lease.Milliseconds()).Scan(&token)
		return token, errors.Is(err, sql.ErrNoRows), err
	})
	if err != nil {
		return nil, err
	}
	l := &rowLock{locks: c, name: name, token: token}
	l.renewed = renew(sent, byRenewal, func(ctx context.Context) error {
		return l.update(ctx, "clock_timestamp() + interval '"+strconv.FormatInt(lease.Milliseconds(), 10)+" ms'")
	})
	return l, nil
}

func (c *rowLocks) close() error { return c.db.Close() }

type rowLock struct {
	*renewed
	locks *rowLocks
	name  string
	token int64
}

func (l *rowLock) fence() string { return fmt.Sprint(l.token) }

// update gives the row another end, while it is this holder's.
func (l *rowLock) update(ctx context.Context, until string) error {
	r, err := l.locks.db.ExecContext(ctx, "UPDATE locks SET until = "+until+ //nolint:gosec // one of two constants
		" WHERE name = $1 AND owner = $2 AND token = $3 AND until > clock_timestamp()", l.name, l.locks.owner, l.token)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errNotHeld, err)
	}
	return nil
}

func (l *rowLock) ask(ctx context.Context) (is bool, err error) {
	err = l.locks.db.QueryRowContext(ctx, "SELECT owner = $2 AND token = $3 AND until > clock_timestamp() FROM locks WHERE name = $1",
		l.name, l.locks.owner, l.token).Scan(&is)
	return is, err
}

func (l *rowLock) release(ctx context.Context) error {
	l.end()
	return l.update(ctx, "'-infinity'")
}
