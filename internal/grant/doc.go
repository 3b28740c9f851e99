// Package grant is what a process makes of the locks that releases grant it: which push
// is a grant of its attempt, what token and validity they come to, when the other nodes
// are asked, when all is given back, and how it goes on after its own release. Nothing
// here reads a clock or waits.
//
// An attempt belongs to a line, a process and a name, and not to a goroutine. It opens
// with the first ask by place, or with the release that puts it in line (internal/lua,
// hand.lua), and has one owner value for as long as that stands anywhere. On each node
// it is in line until somebody runs it there: an ask of its own, or another's release.
package grant
