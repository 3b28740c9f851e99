package main

import "github.com/quorumkit/redlock/internal/cli"

// Pages is what help says of each command, and in "" of all.
func Pages() map[string]string { return program(&app{cli.NewConsole("redlock-lab")}).Pages() }

// Shapes are what each command prints with --json, under the headings of docs/COMMAND.md.
func Shapes() map[string]any {
	return map[string]any{"redlock-lab list": scenarioShows{}, "redlock-lab play, render and explore": runShows{}}
}
