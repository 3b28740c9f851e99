// Package guardtest holds what tests package fencing with drivers and servers,
// in a module of its own so that importers of redlock inherit neither.
//
// The tests start their own PostgreSQL, pgbouncer, MariaDB and redis-server, each in a
// temporary directory and on a free port, and stop them. A server whose binary
// is not installed is skipped, with the reason.
//
// BenchmarkCost prints what a guarded write costs beside an unguarded one:
//
//	go test -run '^$' -bench Cost .
package guardtest
