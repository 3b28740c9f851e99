// Package chaos breaks a cluster of Redis masters on purpose, to show what
// survives.
//
// A [Plan] of faults, clients and load is drawn from a seed by [Swarm], a [Scenario]
// shows one failure by name, and both play on a [Stage]: in virtual time, in process, or
// on server processes behind proxies. What happens is a trace of [Record]s, and a judge says
// which [Rule] they break. [Test] does it all for a user's own code, [Explore] for a user's own
// lock, which is a [Contender] made by a [Kit].
//
// Nothing in this package is meant for production.
//
// Experimental: all of it may change before v1.
package chaos
