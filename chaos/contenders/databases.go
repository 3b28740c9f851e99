package contenders

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/quorumkit/redlock"
)

var postgres = kind{
	words: "1 server, on disk", label: "PostgreSQL", nodes: 1, ports: 1, clock: true,
	find: func() (string, error) {
		program, err := installed("postgres", "postgresql", "/usr/lib/postgresql/*/bin/postgres")()
		if target, linked := filepath.EvalSymlinks(program); err == nil && linked == nil {
			program = target // initdb is beside it
		}
		return program, err
	},
	prepare: func(ctx context.Context, s *system) error {
		return s.runOnce(ctx, filepath.Join(filepath.Dir(s.program), "initdb"),
			"-D", s.file("data"), "-U", "contenders", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	},
	args: func(s *system, i int) []string {
		return []string{
			"-D", s.file("data"), "-p", strconv.Itoa(s.port(i, 0)), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=" + s.dir, "-c", "max_connections=60", "-c", "shared_buffers=16MB",
		}
	},
	ready: answers(postgresAt, `
		CREATE TABLE IF NOT EXISTS locks (name text PRIMARY KEY, owner text, token bigint NOT NULL DEFAULT 0, until timestamptz NOT NULL DEFAULT '-infinity');
		CREATE TABLE IF NOT EXISTS versions (name text PRIMARY KEY, version bigint NOT NULL DEFAULT 0, writer text)`),
}

var mariadb = kind{
	words: "1 server, on disk", label: "MariaDB", nodes: 1, ports: 1, clock: true,
	find: installed("mariadbd", "mariadb-server", "/usr/sbin/mariadbd"),
	prepare: func(ctx context.Context, s *system) error {
		install, err := installed("mariadb-install-db", "mariadb-server", "")()
		if err != nil {
			return err
		}
		// Without --no-defaults the machine's own configuration would decide.
		return s.runOnce(ctx, install, "--no-defaults", "--datadir="+s.file("data"), "--auth-root-authentication-method=normal", "--skip-test-db")
	},
	args: func(s *system, i int) []string {
		return []string{
			"--no-defaults", "--datadir=" + s.file("data"), "--socket=" + s.file("sock"), "--pid-file=" + s.file("pid"),
			"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port(i, 0)), "--skip-grant-tables", "--skip-name-resolve",
			"--max-connections=60", "--innodb-buffer-pool-size=32M", "--tmpdir=" + s.dir,
		}
	},
	ready: answers(mariadbAt, "SELECT 1"),
}

func postgresAt(addr string) (*sql.DB, error) {
	return sql.Open("pgx", "postgres://contenders@"+addr+"/postgres?sslmode=disable&connect_timeout=5")
}

func mariadbAt(addr string) (*sql.DB, error) {
	if err := mysql.SetLogger(quiet); err != nil { // it writes each broken connection to standard error
		return nil, err
	}
	return sql.Open("mysql", "root@tcp("+addr+")/?timeout=5s")
}

func answers(at func(addr string) (*sql.DB, error), text string) func(ctx context.Context, s *system) error {
	return func(ctx context.Context, s *system) error {
		db, err := at(s.addrs()[0])
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(ctx, text)
		return err
	}
}

type inSession func(ctx context.Context, conn *sql.Conn, name string) error

// runs is statements one after another. Those with a parameter get the name.
func runs(statements ...string) inSession {
	return func(ctx context.Context, conn *sql.Conn, name string) error {
		for _, text := range statements {
			var args []any
			if strings.ContainsAny(text, "$?") {
				args = append(args, name)
			}
			if _, err := conn.ExecContext(ctx, text, args...); err != nil {
				return err
			}
		}
		return nil
	}
}

// sessions is locks that live by a session with a database: the server ends them when it
// ends the session, and it does that when a lease has passed without a query. settle has
// it do so. Who waits does so in the server, on a connection of its own.
func sessions(at func(addr string) (*sql.DB, error), settle string, take, give inSession) opener {
	return func(_ context.Context, addrs []string) (acquirer, error) {
		db, err := at(addrs[0])
		return func(ctx context.Context, name string) (*lock, error) {
			conn, err := db.Conn(ctx)
			if err != nil {
				return nil, err
			}
			query := func(ctx context.Context) error { return runs("SELECT 1")(ctx, conn, "") }
			if err = runs(settle)(ctx, conn, ""); err == nil {
				err = take(ctx, conn, name)
			}
			// When the lock came is not known to the millisecond, so the lease is counted from
			// the next query.
			sent := monotonic()
			if err == nil {
				err = query(ctx)
			}
			if err != nil {
				discard(conn)
				return nil, err
			}
			return renewed(sent, bySession, func(ctx context.Context) error {
				if err := query(ctx); err != nil {
					return errors.Join(errNotHeld, err) // what is left of the session is not this one
				}
				return nil
			}, func(ctx context.Context) error {
				defer discard(conn)
				return give(ctx, conn, name)
			}), nil
		}, err
	}
}

var (
	openAdvisory = sessions(postgresAt, fmt.Sprint("SET idle_session_timeout = ", lease.Milliseconds()),
		runs("SELECT pg_advisory_lock(hashtextextended($1, 0))"), runs("SELECT pg_advisory_unlock(hashtextextended($1, 0))"))
	// The lock is the transaction's.
	openForUpdate = sessions(postgresAt, fmt.Sprint("SET idle_in_transaction_session_timeout = ", lease.Milliseconds()),
		runs("INSERT INTO locks (name) VALUES ($1) ON CONFLICT DO NOTHING", "BEGIN", "SELECT name FROM locks WHERE name = $1 FOR UPDATE"),
		runs("COMMIT"))
	openMariaDB = sessions(mariadbAt, fmt.Sprint("SET SESSION wait_timeout = ", int(lease/time.Second)), getLock, runs("DO RELEASE_LOCK(?)"))
)

func getLock(ctx context.Context, conn *sql.Conn, name string) error {
	for ctx.Err() == nil {
		var got sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 30)", name).Scan(&got); err != nil {
			return err
		}
		if got.Int64 == 1 {
			return nil
		}
	}
	return ctx.Err()
}

// discard makes the pool close the connection, rather than keep it.
func discard(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }

// openRow keeps a row for each name, with an owner, an expiry by the server's clock, and a
// number that each new owner raises.
func openRow(_ context.Context, addrs []string) (acquirer, error) {
	db, err := postgresAt(addrs[0])
	owner, ms := uuid.NewString(), lease.Milliseconds()
	return func(ctx context.Context, name string) (*lock, error) {
		token, sent, err := poll(ctx, func() (token redlock.Token, taken bool, err error) {
			err = db.QueryRowContext(ctx, `INSERT INTO locks AS l (name, owner, token, until)
				VALUES ($1, $2, 1, clock_timestamp() + $3 * interval '1 ms')
				ON CONFLICT (name) DO UPDATE SET owner = $2, token = l.token + 1, until = clock_timestamp() + $3 * interval '1 ms'
				WHERE l.until < clock_timestamp() RETURNING token`, name, owner, ms).Scan(&token)
			return token, errors.Is(err, sql.ErrNoRows), err
		})
		if err != nil {
			return nil, err
		}
		const own = " WHERE name = $1 AND owner = $2 AND token = $3 AND until > clock_timestamp()"
		l := renewed(sent, byRenewal, func(ctx context.Context) error {
			return one(errNotHeld)(db.ExecContext(ctx,
				"UPDATE locks SET until = clock_timestamp() + $4 * interval '1 ms'"+own, name, owner, token, ms))
		}, func(ctx context.Context) error {
			return one(errNotHeld)(db.ExecContext(ctx, "UPDATE locks SET until = '-infinity'"+own, name, owner, token))
		})
		l.fence = token
		return l, nil
	}, err
}

// one is no error where a statement changed a row.
func one(none error) func(sql.Result, error) error {
	return func(r sql.Result, err error) error {
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(none, err)
		}
		return nil
	}
}

// work is no lock: a row for each name, whose version each write raises. Who begins work
// reads it, nobody is locked out, and a write counts if the version is still the same.
type work struct {
	db           *sql.DB
	writer, name string
	version      redlock.Token
}

func openVersions(_ context.Context, addrs []string) (acquirer, error) {
	db, err := postgresAt(addrs[0])
	writer := uuid.NewString()
	return func(ctx context.Context, name string) (*lock, error) {
		w := &work{db: db, writer: writer, name: name}
		err := w.begin(ctx)
		return &lock{fence: w.version, release: w.release}, err
	}, err
}

func (w *work) begin(ctx context.Context) error {
	_, err := w.db.ExecContext(ctx, "INSERT INTO versions (name) VALUES ($1) ON CONFLICT DO NOTHING", w.name)
	if err == nil {
		err = w.db.QueryRowContext(ctx, "SELECT version FROM versions WHERE name = $1", w.name).Scan(&w.version)
	}
	return err
}

// release writes. A write whose answer did not come is sent again.
func (w *work) release(ctx context.Context) error {
	for again := false; ; again = true {
		err := w.write(ctx, again)
		if err == nil || errors.Is(err, errLate) {
			return err
		}
		if wait(ctx, pollEvery) != nil {
			return err
		}
	}
}

// write finds no row where it comes late, or, sent again, where it had been done before:
// the row says whose write it was.
func (w *work) write(ctx context.Context, again bool) error {
	err := one(errLate)(w.db.ExecContext(ctx, "UPDATE versions SET version = version + 1, writer = $3 WHERE name = $1 AND version = $2", w.name, w.version, w.writer))
	if !again || !errors.Is(err, errLate) {
		return err
	}
	own := false
	asked := w.db.QueryRowContext(ctx, "SELECT version = $2 + 1 AND writer = $3 FROM versions WHERE name = $1", w.name, w.version, w.writer).Scan(&own)
	if own || asked != nil {
		return asked
	}
	return err
}

// memcachedExpiry is the lease in its whole seconds, and one more: its clock ticks once
// a second, and an item may end that much early.
const memcachedExpiry = int32(lease/time.Second) + 1

var memcachedServer = kind{
	words: "1 server, in memory", label: "memcached", nodes: 1, ports: 1, clock: true,
	find: installed("memcached", "memcached", ""),
	args: func(s *system, i int) []string {
		return []string{"--listen=127.0.0.1", fmt.Sprint("--port=", s.port(i, 0)), "--udp-port=0", "--memory-limit=16", "--threads=1"}
	},
	ready: func(ctx context.Context, s *system) error {
		return expect(ctx, s.addrs()[0], "version\r\nquit\r\n", "VERSION")
	},
}

// openMemcached opens a client whose timeout a loaded machine can keep.
func openMemcached(_ context.Context, addrs []string) (acquirer, error) {
	c := memcache.New(addrs...)
	c.Timeout = time.Second
	c.DialContext = (&net.Dialer{Timeout: time.Second}).DialContext
	return func(ctx context.Context, name string) (*lock, error) {
		m := memcachedLock{c, name, uuid.NewString()}
		_, sent, err := poll(ctx, func() (struct{}, bool, error) {
			err := c.Add(&memcache.Item{Key: name, Value: []byte(m.owner), Expiration: memcachedExpiry})
			return struct{}{}, errors.Is(err, memcache.ErrNotStored), err
		})
		if err != nil {
			return nil, err
		}
		item, asked := m.own()
		l := renewed(sent, byRenewal, func(context.Context) error { return m.set(memcachedExpiry) }, func(context.Context) error { return m.set(-1) })
		if asked == nil {
			l.fence = redlock.Token(item.CasID) // of the item as it was added
		}
		return l, nil
	}, nil
}

type memcachedLock struct {
	client      *memcache.Client
	name, owner string
}

func (l memcachedLock) own() (*memcache.Item, error) {
	item, err := l.client.Get(l.name)
	if errors.Is(err, memcache.ErrCacheMiss) || err == nil && string(item.Value) != l.owner {
		return nil, errNotHeld
	}
	return item, err
}

// set gives the item another expiry, if it is this holder's; in the past: it removes it.
func (l memcachedLock) set(expiry int32) error {
	item, err := l.own()
	if err != nil {
		return err
	}
	item.Expiration = expiry
	err = l.client.CompareAndSwap(item)
	if errors.Is(err, memcache.ErrCASConflict) || errors.Is(err, memcache.ErrNotStored) || errors.Is(err, memcache.ErrCacheMiss) {
		return errNotHeld
	}
	return err
}
