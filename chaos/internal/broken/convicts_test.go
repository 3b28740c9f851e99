package broken_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/testkit"
)

// mutantsVariable names the environment variable that says which mutants are tried: all,
// or those that edit one of its files ("lock.go internal/round/ask.go"). Without it the
// deep tier tries all. A number before the files is the most that are tried, drawn by the
// day ("10 lock.go").
const mutantsVariable = "REDLOCK_MUTANTS"

// convictWithin is how long a test may take to convict one. A test that hangs convicts none.
const convictWithin = time.Minute

// The edits of all mutants and ways still fit, and each mutant's test is there.
func TestEachMutantHasItsTest(t *testing.T) {
	t.Parallel()
	_, err := overlayOf(mutants, t.TempDir())
	_, waysErr := overlayOf(ways, t.TempDir())
	testkit.Must(t, err, waysErr)
	for i := range mutants {
		if _, _, err := mutants[i].test(); err != nil {
			t.Error(err)
		}
	}
}

// test is the package and the name of the test that convicts a mutant.
func (w *way) test() (pkg, name string, err error) {
	pkg, name, _ = strings.Cut(w.by, " ")
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		return "", "", err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		if strings.Contains(string(text), "\nfunc "+name+"(t *testing.T) {") {
			return pkg, name, nil
		}
	}
	return "", "", fmt.Errorf("%s: no test %s in %s", w.name, name, pkg)
}

// Each mutant fails its test, and the sound protocol passes it.
//
//	make mutants
func TestEachMutantIsConvicted(t *testing.T) {
	t.Parallel()
	chosen := chosenMutants(t)
	dir := t.TempDir()
	overlay, err := overlayOf(mutants, dir)
	testkit.Must(t, err)
	built := map[string]func() (string, error){}
	for _, w := range chosen {
		pkg, _, err := w.test()
		testkit.Must(t, err)
		if built[pkg] == nil {
			built[pkg] = sync.OnceValues(func() (string, error) {
				return buildOver(t.Context(), overlay, dir, filepath.Join("github.com/quorumkit/redlock", pkg))
			})
		}
	}
	for _, w := range chosen {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel() // most of them wait
			pkg, name, err := w.test()
			testkit.Must(t, err)
			binary, err := built[pkg]()
			testkit.Must(t, err)
			if out, err := tried(t, binary, pkg, name, nothing); err != nil || !strings.Contains(out, "--- PASS: "+name) {
				t.Fatalf("%s, the sound protocol: %v\n%s", name, err, out)
			}
			out, err := tried(t, binary, pkg, name, w.name)
			if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || !strings.Contains(out, "--- FAIL: "+name) {
				t.Errorf("%s does not fail: %v\n%s", name, err, out)
			}
		})
	}
}

// chosenMutants are the ones to try.
func chosenMutants(t *testing.T) (chosen []*way) {
	t.Helper()
	files := strings.Fields(os.Getenv(mutantsVariable))
	if len(files) == 0 {
		testkit.NeedDeep(t)
		files = []string{"all"}
	}
	most, err := strconv.Atoi(files[0])
	if err == nil {
		files = files[1:]
	} else {
		most = len(mutants)
	}
	for i := range mutants {
		w := &mutants[i]
		if files[0] == "all" || slices.ContainsFunc(touched([]way{*w}), func(f string) bool { return slices.Contains(files, f) }) {
			chosen = append(chosen, w)
		}
	}
	t.Logf("%d of %d mutants edit the files; at most %d are tried", len(chosen), len(mutants), most)
	draw := rand.New(rand.NewPCG(uint64(time.Now().Unix()/86400), 0))
	draw.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen[:min(most, len(chosen))]
}

// tried is what a test of the full tier says while a way is in force.
func tried(t *testing.T, binary, pkg, name, way string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), convictWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run=^"+name+"$", "-test.v")
	cmd.Dir = filepath.Join(root, pkg)
	cmd.Env = append(os.Environ(), variable+"="+way, "REDLOCK_TEST=full")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
