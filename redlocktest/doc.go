// Package redlocktest gives a test, or a demonstration, a handful of Redis
// masters inside its own process: no server to install, no port, no clean-up.
//
//	func TestMine(t *testing.T) {
//		nodes := redlocktest.Start(t, 5)
//		locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...))
//		...
//		nodes.Node(0).Stop() // one of five is gone
//	}
//
// Each node is a miniredis whose TTLs run with the clock, and which answers
// what redlock asks of a real server: INFO with a run_id, and a restart that
// changes it and forgets the scripts. (A plain miniredis has neither, and
// redlock refuses it.) Connections live in memory and keep their deadlines, so
// everything works inside a testing/synctest bubble, where a lease of half a
// minute passes at once, as well as outside.
//
// Inside a bubble the cluster must be started in that bubble, and the default
// clients of go-redis must not be used: they look up host names and wait on
// timers that every bubble shares. [Cluster.Clients] are set up for it.
//
// What a node is not: a Redis for performance figures (a script costs it tens
// of microseconds), nor one for settings (CONFIG, ACL and replication are
// absent). Its Lua prints large integers exactly, where a real server's rounds
// them above 14 digits. Use real servers for these; package chaos starts them.
package redlocktest
