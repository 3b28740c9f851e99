package broken_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// In virtual time a goroutine seldom stops between two steps of its own, as any may that the
// machine keeps waiting. So the build over the broken protocols has each method of
// internal/acquire that takes a context stand still at its beginning now and then, where
// pausesVariable is set.

// pausesVariable names the environment variable that asks for it.
const pausesVariable = "REDLOCK_CHAOS_PAUSES"

// pausesIn is what sets it in a process's environment.
func pausesIn(pauses bool) []string {
	if pauses {
		return []string{pausesVariable + "=1"}
	}
	return nil
}

// pausing is the package whose functions stand still.
const pausing = "internal/acquire"

// mayBlock is the first line of a method that takes a context. No caller has a mutex then.
var mayBlock = regexp.MustCompile(`(?m)^func \(\w+ \*?\w+\) \w+\(ctx context\.Context.*\{$`)

// takesContext is any function that takes one.
var takesContext = regexp.MustCompile(`(?m)^func .*\bctx context\.Context`)

// addPauses adds them to these files, and to those of the package that are not among them.
func addPauses(top string, files map[string]string) error {
	names, err := filepath.Glob(filepath.Join(top, pausing, "*.go"))
	if err != nil {
		return err
	}
	place, all := 0, 0
	for _, path := range names {
		name := filepath.Join(pausing, filepath.Base(path))
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if _, ok := files[name]; !ok {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files[name] = string(text)
		}
		all += len(takesContext.FindAllString(files[name], -1))
		files[name] = mayBlock.ReplaceAllStringFunc(files[name], func(line string) string {
			place++
			return fmt.Sprintf("%s\n\tpause(%d)", line, place)
		})
	}
	if place == 0 || place != all {
		return fmt.Errorf("%s has %d functions that take a context, and %d may pause: mend the pattern", pausing, all, place)
	}
	files[filepath.Join(pausing, "pauses.go")] = pauses
	return nil
}

// pauses is what the overlay adds to the package. A pause is drawn from the place, the time,
// which is virtual, and how many there were: who comes to one place at one time goes on at
// another.
const pauses = `package acquire

import (
	"os"
	"sync/atomic"
	"time"
)

var asked atomic.Uint64

var pausesHere = os.Getenv("` + pausesVariable + `") != ""

func pause(place uint64) {
	if !pausesHere {
		return
	}
	drawn := (uint64(time.Now().UnixNano()) + place<<56 + asked.Add(1)<<40) * 0x9E3779B97F4A7C15
	drawn = (drawn ^ drawn>>32) * 0xD6E8FEB86659FD93
	if drawn>>61 == 0 {
		time.Sleep(time.Duration(drawn >> 20 % uint64(16*time.Millisecond)))
	}
}
`
