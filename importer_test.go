package redlock_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goList runs the go command, which needs no network for what was built.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		t.Fatalf("go list %v: %v", args, err)
	}
	return strings.Fields(string(out))
}

// What only masters in one's own process need is compiled by who imports
// redlocktest, and by nobody else. go.mod requires it all the same: an importer's graph has
// two modules more, and its go.sum four lines. A module of its own for redlocktest would
// change nothing of that: the root's tests use it, so go.mod would require that module, and
// with it the same two.
func TestWhoImportsTheLockCompilesNoServer(t *testing.T) {
	isServer := func(pkg string) bool {
		return strings.Contains(pkg, "miniredis") || strings.Contains(pkg, "gopher-lua") || strings.HasSuffix(pkg, "/redlocktest")
	}
	importable := []string{".", "./adapters", "./fencing"}
	if i := slices.IndexFunc(goList(t, append([]string{"-deps"}, importable...)...), isServer); i >= 0 {
		t.Error("the lock, its adapters or guards import an in-process server; want none")
	}
	if !slices.ContainsFunc(goList(t, "-deps", "./redlocktest"), isServer) {
		t.Error("redlocktest imports no server; then this test looks for the wrong ones")
	}
}

// go.mod asks for no more than the modules that it requires ask for themselves, and
// for no patch release: importers may have an older one.
func TestTheGoVersionIsNoNewerThanTheDependenciesNeed(t *testing.T) {
	var own, most string
	for _, m := range goList(t, "-m", "-f", "{{.Main}}={{.GoVersion}}", "all") {
		main, version, _ := strings.Cut(m, "=")
		version = regexp.MustCompile(`^1\.\d\d$`).ReplaceAllString(version, "$0.0")
		switch {
		case main == "true":
			own = version
		case len(version) == len("1.26.0") && version > most:
			most = version
		}
	}
	if own != most || !strings.HasSuffix(own, ".0") {
		t.Errorf("go.mod has go %s, and its dependencies need %s; want the same, and no patch release", own, most)
	}
}
