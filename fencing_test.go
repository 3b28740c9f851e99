package redlock_test

import (
	"testing"

	"github.com/quorumkit/redlock"
)

func TestTokenIsDecimal(t *testing.T) {
	if got, want := redlock.MaxToken.String(), "9007199254740991"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}
