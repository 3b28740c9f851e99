// Package chaos breaks a cluster of Redis masters on purpose, to show what
// survives.
//
// A [Server] is a real redis-server (or valkey-server) process that can be
// killed, stopped, restarted with its data, with old data or with none, have its
// log cut as by a power failure, and have its clock set. A [Proxy] stands between
// a client and a server and delays, loses and holds back what they say, and heals
// on the very connections that it broke.
//
// Nothing in this package is meant for production.
package chaos
