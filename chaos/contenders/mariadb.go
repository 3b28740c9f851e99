package contenders

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
)

var mariadbSpec = spec{
	name: "MariaDB GET_LOCK", module: "github.com/go-sql-driver/mysql", servers: sqlServers,
	fence: "none", notice: "nobody; the session's next query fails",
	start: startMariaDB, open: openMariaDB,
}

func startMariaDB(ctx context.Context) (*system, error) {
	install, err1 := lookFor("mariadb-install-db", "mariadb-server")
	daemon, err2 := lookFor("mariadbd", "mariadb-server", "/usr/sbin/mariadbd")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	s, err := newSystem("mariadb")
	if err != nil {
		return nil, err
	}
	ports, err := s.freePorts(1)
	data := "--datadir=" + filepath.Join(s.dir, "data")
	if err = errors.Join(err, s.unprivileged()); err == nil {
		// Without --no-defaults the machine's own configuration would decide.
		err = s.runOnce(ctx, install, "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.add(&proc{path: daemon, address: local(ports[0]), clock: true, args: []string{
		"--no-defaults", data, "--socket=" + filepath.Join(s.dir, "sock"), "--pid-file=" + filepath.Join(s.dir, "pid"),
		"--bind-address=127.0.0.1", "--port=" + strconv.Itoa(ports[0]), "--skip-grant-tables", "--skip-name-resolve",
		"--max-connections=60", "--innodb-buffer-pool-size=32M", "--tmpdir=" + s.dir,
	}})
	return s.begin(ctx, func(ctx context.Context, addrs []string) error {
		db, err := sql.Open("mysql", mariadbDSN(addrs[0]))
		if err != nil {
			return err
		}
		defer db.Close()
		return db.QueryRowContext(ctx, "SELECT CONCAT('MariaDB ', VERSION())").Scan(&s.version)
	})
}

func mariadbDSN(addr string) string { return "root@tcp(" + addr + ")/?timeout=5s" }

// openMariaDB: the lock is the session's, and the server ends a session that says
// nothing for a lease.
func openMariaDB(_ context.Context, addrs []string) (client, error) {
	if err := mysql.SetLogger(quiet{}); err != nil { // it writes each broken connection to standard error
		return nil, err
	}
	db, err := sql.Open("mysql", mariadbDSN(addrs[0]))
	return &sessionLocks{
		db:     db,
		settle: "SET SESSION wait_timeout = " + strconv.Itoa(int(lease/time.Second)),
		take:   takeMariaDB,
		give: func(ctx context.Context, conn *sql.Conn, name string) error {
			_, err := conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", name)
			return err
		},
	}, err
}

func takeMariaDB(ctx context.Context, conn *sql.Conn, name string) error {
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
