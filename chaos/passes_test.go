package chaos_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
)

// passes runs a test within an example, as go test does, and tells whether it
// passed. What package testing says of it with -v is not the example's output.
func passes(test func(*testing.T)) bool {
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	defer nowhere.Close()
	stdout := os.Stdout
	os.Stdout = nowhere
	defer func() { os.Stdout = stdout }()
	skip := strings.Split(flag.Lookup("test.skip").Value.String(), "|")
	match := func(pattern, _ string) (bool, error) { return !slices.Contains(skip, pattern), nil }
	return testing.RunTests(match, []testing.InternalTest{{Name: "TestOfAnExample", F: test}})
}
