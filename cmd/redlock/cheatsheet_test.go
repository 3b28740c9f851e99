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

	"github.com/quorumkit/redlock/internal/lab/redisserver"
)

// The command lines of docs/CHEATSHEET.md work as they stand there, one after another.
// Those that go on until they are told to end are told so: a hold that can be asked for
// once it is asked, the others at once.
func TestTheCommandLinesOfTheCheatSheetWork(t *testing.T) {
	t.Parallel()
	// Everysec, so that a disk that is busy otherwise does not hold the servers up.
	_, nodes := blanks(t, 3, redisserver.Config{AOF: redisserver.FsyncEverysec, Args: []string{"--maxmemory", "256mb", "--maxmemory-policy", "noeviction"}})
	must(t, open(t, nodes).Cluster().Admit(t.Context()))
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "work"), []byte("#!/bin/sh\necho \"worked $REDLOCK_TOKEN\"\n"), 0o700))
	page, err := os.ReadFile("../../docs/CHEATSHEET.md")
	must(t, err)
	lines := regexp.MustCompile("`redlock ([^`]+)`").FindAllStringSubmatch(string(page), -1)
	if len(lines) < 18 {
		t.Errorf("got %d lines; the search for them is broken", len(lines))
	}
	var revocable *process
	for _, line := range lines {
		text := line[1]
		if text == "exec" {
			continue // in a sentence
		}
		p := start(t, shellLine(t, dir, nodes, text))
		switch words := strings.Fields(text); {
		case slices.Contains(words, "--revocable"):
			eventually(t, text, func() bool { return strings.Contains(p.stdout(), "held") })
			revocable = p
			continue
		case words[0] == "revoke":
			eventually(t, "it is asked for", func() bool { return strings.Contains(revocable.stdout(), "revoked") })
			revocable.signal(t, sigTERM)
			revocable.wait(t).want(t, 0)
		case words[0] == "hold", words[0] == "observe":
			eventually(t, text, func() bool { return strings.HasSuffix(p.stdout(), "\n") })
			p.signal(t, sigTERM)
			if p.wait(t).code == 64 {
				t.Errorf("redlock %s: %s", text, p.stderr())
			}
			continue
		}
		r := p.wait(t)
		if strings.HasPrefix(text, "doctor") {
			r = contentDoctor(t, r, func() *exec.Cmd { return shellLine(t, dir, nodes, text) })
		}
		r.want(t, 0)
		if strings.HasSuffix(text, "./work") && !strings.Contains(r.out, "worked ") {
			t.Errorf("redlock %s: got %q; want the command run", text, r.out)
		}
	}
	if revocable == nil {
		t.Error("got no hold that can be asked for")
	}
}

// contentDoctor is what the doctor says in the end of nodes that have nothing wrong: a machine
// that stands still for a moment, with round trips as long, is something to warn of.
func contentDoctor(t *testing.T, r result, again func() *exec.Cmd) result {
	t.Helper()
	eventually(t, "nothing to warn of: "+r.out, func() bool {
		if r.code != 0 {
			r = start(t, again()).wait(t)
		}
		return r.code == 0
	})
	return r
}

// shellLine is a line of a page without the program's name, run by a shell. With "-lab" it
// begins where it is the lab's.
func shellLine(t *testing.T, dir, nodes, text string) *exec.Cmd {
	t.Helper()
	line := `exec "$REDLOCK" --node-timeout 3s ` + text
	if strings.HasPrefix(text, "-lab ") {
		line = `exec "$REDLOCK"` + text
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.WaitDelay = dir, patience
	cmd.Env = append(os.Environ(), "REDLOCK="+command, "REDLOCK_NODES="+nodes)
	return cmd
}

// The statuses of the sheet are those of the help page.
func TestTheStatusesOfTheCheatSheetAreTheProgramsOwn(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/CHEATSHEET.md")
	must(t, err)
	_, table, _ := strings.Cut(string(page), "| status |")
	table, _, _ = strings.Cut(table, "\n\n")
	help := run(t, "", "help").out
	statuses := regexp.MustCompile(`\b\d{2,3}\b`).FindAllString(table, -1)
	if len(statuses) < 6 {
		t.Errorf("got statuses %q; the search for them is broken", statuses)
	}
	for _, s := range statuses {
		if !regexp.MustCompile(`\b` + s + `\b`).MatchString(help) {
			t.Errorf("docs/CHEATSHEET.md has the status %s, and redlock help has not:\n%s", s, help)
		}
	}
}
