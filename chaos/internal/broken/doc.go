// Package broken holds the proof that the exploration of package chaos means
// something: the same exploration that finds nothing in redlock finds every way
// in which redlock is broken here by hand.
//
// It is the real code that is broken, and the product has no switch for it: a
// test gives the Go tool an overlay in which a few lines are other ones, behind
// a look at an environment variable, and builds itself once more from that. One
// such build has all the ways; each is played in a process of its own.
package broken
