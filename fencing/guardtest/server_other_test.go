//go:build !linux

package guardtest_test

import "testing"

// Where the servers cannot be tied to the life of the tests, only SQLite is
// tested.
const (
	postgres  = "PostgreSQL"
	pgbouncer = "PgBouncer"
	mariadb   = "MariaDB"
	redisAt   = "Redis"
)

func dsnOf(tb testing.TB, name string) string {
	tb.Helper()
	tb.Skip("a private " + name + " is started on Linux only")
	return ""
}
