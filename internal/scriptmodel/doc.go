// Package scriptmodel is one node as the scripts of lua/ see and change it: a
// small value that copies and compares, for searches through the protocol. A
// differential test holds it and the scripts together.
//
// Owners, names, stripes and numbers are small integers, and time is counted in
// ticks. Nothing expires by itself: a search decides when, with Expire (a clock
// runs) or Drop (expiry at any moment, no matter what any clock says).
//
// Replies are the scripts' own integers, with ticks for milliseconds.
package scriptmodel
