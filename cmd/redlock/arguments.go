package main

import (
	"regexp"
	"strings"
	"unsafe"
)

// password finds the user information of a URL: all up to the last @ before the
// next comma or blank. A password may hold an @, and, against the rules, a slash.
var password = regexp.MustCompile(`(://)[^,\s]*@`)

// redact takes user names and passwords out of a message.
func redact(s string) string { return password.ReplaceAllString(s, "${1}***@") }

// takeArguments returns a copy of the arguments, and blots out in the original
// what may be a password. On Unix the original is the memory that ps shows; a
// password given there is seen for the milliseconds before this runs, and stays in
// the shell's history: hence the advice to use --nodes-file.
func takeArguments(args []string) []string {
	taken := make([]string, len(args))
	for i, s := range args {
		taken[i] = strings.Clone(s)
		// All between the first and the last, so that no odd password is left over.
		if from, to := strings.Index(s, "://"), strings.LastIndex(s, "@"); from >= 0 && to > from {
			blot(args[i], from+len("://"), to)
		}
	}
	return taken
}

// blot overwrites a part of an argument in place.
func blot(s string, from, to int) {
	memory := unsafe.Slice(unsafe.StringData(s), len(s)) //nolint:gosec // G103: argv is writable memory of this process, and nobody else has read it yet
	for i := from; i < to; i++ {
		memory[i] = '*'
	}
}
