package main

import (
	"bufio"
	"net/url"
	"os"
	"runtime"
	"strings"
)

// readNodes reads a file of nodes: one a line, "#" begins a comment.
func readNodes(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // the user's own file is the point
	if err != nil {
		return "", configuration("--nodes-file: %w", err)
	}
	defer f.Close()
	var lines []string
	in := bufio.NewScanner(f)
	for in.Scan() {
		// A password may hold a "#", so only one at the beginning is a comment.
		if line := strings.TrimSpace(in.Text()); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if err := in.Err(); err != nil {
		return "", configuration("--nodes-file: %w", err)
	}
	return strings.Join(lines, ","), nil
}

// forOthers is the permission of every user to read a file. What a group may read is the
// owner's choice.
const forOthers = 0o004

// warnOfReaders warns of a password in a file that every user may read.
func (a *app) warnOfReaders(urls []string) {
	path := a.connection.nodesFile
	if path == "" || runtime.GOOS == "windows" || !secret(urls) { // there the bits say nothing
		return
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&forOthers != 0 {
		a.complain("warning: --nodes-file " + path + " has a password, and every user can read it: chmod o-r, or 600")
	}
}

// secret tells whether one of the URLs has a password, or may have one.
func secret(urls []string) bool {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			if strings.Contains(text, "@") {
				return true
			}
			continue
		}
		if _, set := u.User.Password(); set {
			return true
		}
	}
	return false
}
