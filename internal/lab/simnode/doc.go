// Package simnode is a Redis master for simulations: data in memory, RESP in and
// out, and nothing else: no goroutine, no socket, no timer. Anyone who carries the
// bytes decides when a command is executed.
//
// It has the commands that lock clients send, expiries as Redis has them (a
// point in time by the node's own wall clock, which can step and drift), and a
// process that can crash, and come back with its data, without, or with older
// ones. The scripts of redlock that are called often are Go functions here, each known
// by the hash of the script that it stands for; those of the queue (ask, pass, look,
// and acquire, release and hand where somebody waits), those that change the record, and
// all others, run in a Lua interpreter. Tests hold every one of them, and the
// commands, to a real server, and so what a connection hears that subscribes, in
// RESP2 and in RESP3.
//
// It has no users and no rights: no ACL command, no categories, no NOPERM, neither
// for a command nor within a script, and AUTH is refused as where no password is
// set. What rights do is tested on servers only.
// It has no replicas, no second database and no functions either: docs/CHAOS.md lists
// what it has not.
//
// internal/scriptmodel has the same scripts for another use: over integers that
// fit in a byte, so that a search can copy, compare and hash millions of whole
// nodes. Neither could do the other's work; a server judges both.
package simnode
