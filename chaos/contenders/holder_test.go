package contenders

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain plays a holder, where a test has started this binary as one.
func TestMain(m *testing.M) {
	if text := os.Getenv(holderEnv); text != "" {
		if err := playHolder(context.Background(), text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "a holder:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
