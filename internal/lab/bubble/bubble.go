// Package bubble runs a program, or a test, in virtual time on one processor.
package bubble

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bubbles lets one bubble at a time exchange os.Stdout.
var bubbles sync.Mutex

// Run runs f in a testing/synctest bubble outside of go test, so that a
// program has virtual time, and returns f's error. Goroutines that f starts must
// have ended when it returns. While it runs, the process has one processor, and
// os.Stdout is not the program's: package testing, which only a test can enter,
// says PASS there.
//
// In a test, use synctest.Test.
func Run(f func() error) error {
	bubbles.Lock()
	defer bubbles.Unlock()
	defer TakeTurns()()
	testing.Init()
	if !flag.Parsed() {
		if err := flag.CommandLine.Parse(nil); err != nil { // the program's arguments are not the tests'
			return fmt.Errorf("chaos: bubble: %w", err)
		}
	}
	defer setAside()()
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("chaos: bubble: %w", err)
	}
	defer nowhere.Close()
	stdout := os.Stdout
	os.Stdout = nowhere
	defer func() { os.Stdout = stdout }()
	result := errors.New("chaos: bubble: it was not run")
	// Not testing.RunTests: it goes through a list of GOMAXPROCS values that only
	// M.Run fills, and so it runs nothing.
	testing.MainStart(hosted{}, []testing.InternalTest{{Name: "bubble", F: func(t *testing.T) { //nolint:thelper // no test looks at it
		synctest.Test(t, func(*testing.T) {
			defer TidyUp()()
			result = f()
		})
	}}}, nil, nil, nil).Run()
	return result
}

// setAside keeps go test's flags from a bubble that a test or an example enters: f runs once,
// and go test's files stay open.
func setAside() (restore func()) {
	var undo []func()
	for name, value := range map[string]string{
		"test.count": "1", "test.skip": "", "test.testlogfile": "", "test.coverprofile": "", "test.cpuprofile": "", "test.memprofile": "", "test.trace": "",
	} {
		if f := flag.Lookup(name); f != nil {
			was := f.Value.String()
			undo = append(undo, func() { _ = f.Value.Set(was) })
			_ = f.Value.Set(value) // it is one that the flag takes
		}
	}
	return func() {
		for _, u := range undo {
			u()
		}
	}
}

// hosted is what go test's main gives package testing. A bubble needs a match
// for every name, and nothing else.
type hosted struct{}

// corpus is the testing package's own, for fuzzing.
type corpus = struct {
	Parent     string
	Path       string
	Data       []byte
	Values     []any
	Generation int
	IsSeed     bool
}

var errNotHosted = errors.New("chaos: not in a bubble")

func (hosted) ImportPath() string { return "" }

func (hosted) ModulePath() string { return "" }

func (hosted) MatchString(_, _ string) (bool, error) { return true, nil }

func (hosted) SetPanicOnExit0(bool) {}

func (hosted) StartCPUProfile(io.Writer) error { return errNotHosted }

func (hosted) StopCPUProfile() {}

func (hosted) StartTestLog(io.Writer) {}

func (hosted) StopTestLog() error { return nil }

func (hosted) WriteProfileTo(string, io.Writer, int) error { return errNotHosted }

func (hosted) CoordinateFuzzing(time.Duration, int64, time.Duration, int64, int, []corpus, []reflect.Type, string, string) error {
	return errNotHosted
}

func (hosted) RunFuzzWorker(func(corpus) error) error { return errNotHosted }

func (hosted) ReadCorpus(string, []reflect.Type) ([]corpus, error) { return nil, errNotHosted }

func (hosted) CheckCorpus([]any, []reflect.Type) error { return nil }

func (hosted) ResetCoverage() {}

func (hosted) SnapshotCoverage() {}

func (hosted) InitRuntimeCoverage() (mode string, tearDown func(string, string) (string, error), snapcov func() float64) {
	return "", nil, nil
}
