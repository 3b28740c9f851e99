package quietredis

import (
	"bytes"
	"context"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/testkit"
)

// The format is go-redis's: a new version may have another.
func TestAFailedDialIsLeftOutAndAllElseIsTold(t *testing.T) {
	testkit.Full(t)
	var told bytes.Buffer
	f := filter{log.New(&told, "redis: ", 0)}
	redis.SetLogger(f)
	defer On()
	client := redis.NewClient(&redis.Options{Addr: filepath.Join(t.TempDir(), "nobody"), Network: "unix", DialTimeout: time.Second})
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Fatal("got an answer from nobody")
	}
	testkit.Must(t, client.Close())
	if told.Len() > 0 {
		t.Errorf("got %q; want a failed dial left out", told.String())
	}
	f.Printf(context.Background(), "addIdleConn panic: %+v", 7)
	if got, want := told.String(), "redis: addIdleConn panic: 7\n"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// A user's own logger stays: what can be imported sets none, and does not import this
// package. Programs of the module choose for themselves; the lab, which breaks connections
// on purpose, leaves failed dials out.
func TestOnlyTestsSilenceGoRedis(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			_, otherModule := os.Stat(filepath.Join(path, "go.mod"))
			if path != "../../.." && (otherModule == nil || strings.HasPrefix(name, ".") || name == "testdata" || name == "testkit") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			if strings.HasSuffix(i.Path.Value, `testkit/quietredis"`) {
				t.Errorf("%s imports quietredis; want tests only", path)
			}
		}
		if file.Name.Name != "main" && path != filepath.Join("..", "..", "..", "chaos", "stage.go") && (bytes.Contains(text, []byte("redis.SetLogger(")) || bytes.Contains(text, []byte("logging.Disable()"))) {
			t.Errorf("%s replaces go-redis's logger; want it left to the program", path)
		}
		return nil
	})
	if err != nil || files < 50 {
		t.Errorf("read %d files, %v; want the module's", files, err)
	}
}
