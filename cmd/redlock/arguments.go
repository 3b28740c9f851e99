package main

import (
	"regexp"
	"strings"
	"unsafe"
)

// password finds the user information of a URL: all up to the last @ before the
// next slash, comma or blank. A password may hold an @ of its own.
var password = regexp.MustCompile(`(://)[^/,\s]*@`)

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
		for _, at := range password.FindAllStringIndex(taken[i], -1) {
			blot(args[i], at[0]+len("://"), at[1]-1)
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
