//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// namedOnly are commands that the pages' sentences name without what they are for: they
// would be wrong usage.
var namedOnly = []string{
	"-lab render", "exec", "exec --also", "exec --limit n", "exec --revocable", "exec --shared", "hold",
	"lead", "nodes change", "nodes change --add", "nodes change --remove", "observe", "release --force", "revoke", "status",
}

// A command that a sentence of a page names is there, with the flags that it is named
// with, and what is given whole runs: over three masters, one after another.
func TestEveryCommandOfThePagesSentencesIsThere(t *testing.T) {
	t.Parallel()
	_, nodes := blanks(t, 3, redisserver.Config{AOF: redisserver.FsyncEverysec, Args: []string{"--maxmemory", "256mb", "--maxmemory-policy", "noeviction"}})
	must(t, open(t, nodes, redlock.WithStrictRecovery()).Cluster().Admit(t.Context())) // clients with and without the option may use it
	addr, _, _ := strings.Cut(strings.TrimPrefix(nodes, "redis://"), ",")
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "report"), []byte("#!/bin/sh\necho reported\n"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "redlock-compare"), []byte("#!/bin/sh\ntest $# -gt 0\n"), 0o700)) // the other one has its own tests
	ran, named := 0, slices.Clone(namedOnly)
	for _, text := range inlineCommands(t) {
		haveFlags(t, text)
		if i := slices.Index(named, text); i >= 0 {
			named = slices.Delete(named, i, i+1)
			finish(t, shellLine(t, dir, nodes, text)).want(t, 64)
			continue
		}
		ran++
		line := strings.NewReplacer("COMMAND", "exec", "KEY", "orders/42", "ADDR", addr, "-- CMD", "-- true").Replace(text)
		if strings.HasPrefix(line, "bench") {
			line += " --duration 100ms"
		}
		ready := func() *exec.Cmd {
			cmd := shellLine(t, dir, nodes, line)
			cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"))
			return cmd
		}
		p := start(t, ready())
		if strings.HasPrefix(line, "observe") {
			eventually(t, text, func() bool { return strings.HasSuffix(p.stdout(), "\n") })
			p.signal(t, sigTERM)
		}
		r := p.wait(t)
		if strings.HasPrefix(line, "doctor") {
			r = contentDoctor(t, r, ready)
		}
		if r.code != 0 {
			t.Errorf("redlock %s: got exit status %d; want 0\n%s%s", line, r.code, r.out, r.errs)
		}
	}
	if ran < 12 || len(named) > 0 {
		t.Errorf("got %d commands that run, and none of %q; the search for them is broken", ran, named)
	}
}

// inlineCommands are the commands of the pages' sentences, each once, without those of the
// cheat sheet, which has a test of its own.
func inlineCommands(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	var found []string
	for _, name := range append(names, "../../README.md") {
		if filepath.Base(name) == "CHEATSHEET.md" {
			continue
		}
		page, err := os.ReadFile(name)
		must(t, err)
		text := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(page), "")
		for _, m := range regexp.MustCompile("`(?:go run ./cmd/)?redlock(?: |(-lab ))([a-z][^`]*)`").FindAllStringSubmatch(text, -1) {
			found = append(found, m[1]+m[2])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// haveFlags checks that a command's help has the flags that it is given.
func haveFlags(t *testing.T, text string) {
	t.Helper()
	text, _, _ = strings.Cut(strings.TrimPrefix(text, "help "), " -- ")
	if text == "COMMAND" || text == "-lab help" {
		return
	}
	name := regexp.MustCompile(`^((?:-lab )?(?:nodes (?:acl|join|admit|change)|[a-z]+))`).FindString(text)
	line := "help " + name
	if lab, of := strings.CutPrefix(name, "-lab "); of {
		line = "-lab help " + lab
	}
	help := finish(t, shellLine(t, "", "", line))
	help.want(t, 0)
	for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(text, -1) {
		if !regexp.MustCompile(`(?m)` + flag + `\b`).MatchString(help.out) {
			t.Errorf("redlock %s: help %s has no %s", text, name, flag)
		}
	}
}
