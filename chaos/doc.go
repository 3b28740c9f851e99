// Package chaos breaks a cluster of Redis masters on purpose, to show what
// survives.
//
// A [Server] is a real redis-server (or valkey-server) process that can be
// killed, stopped, restarted with its data, with old data or with none, have its
// log cut as by a power failure, and have its clock set. A [Proxy] stands between
// a client and a server and delays, loses and holds back what they say, and heals
// on the very connections that it broke.
//
// A [Plan] of faults, clients and load is drawn from a seed by [Swarm], a [Scenario]
// shows one failure by name, and both play on a [Stage]: in virtual time, in process,
// or on server processes. What happens is a trace of [Record]s, and a [Judge] says
// which rules it breaks. [Test] does it all for a user's own code.
//
// Nothing in this package is meant for production.
package chaos
