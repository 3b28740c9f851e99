package main

import (
	"slices"
	"strings"

	"github.com/quorumkit/redlock/internal/cli"
)

// legend gives names that are too long for a table a letter each.
type legend struct{ names []string }

// of is the letter of a name: A to Z, then A' to Z'.
func (l *legend) of(name string) string {
	i := slices.Index(l.names, name)
	if i < 0 {
		i = len(l.names)
		l.names = append(l.names, name)
	}
	return letter(i)
}

func letter(i int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return letters[i%len(letters):][:1] + strings.Repeat("'", i/len(letters))
}

// text says which name is whose, one a line.
func (l *legend) text() string {
	var b strings.Builder
	for i, name := range l.names {
		b.WriteString(cli.Note(letter(i) + ": " + name))
	}
	return b.String()
}
