package chaos

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock/redlocktest"
)

// observed is a stage whose nodes can be looked into. observe records litter in
// a history until the function that it returns is called.
type observed interface {
	observe(h *History, lease time.Duration) func()
}

// lookEvery is how often keys are looked at.
const lookEvery = 250*time.Millisecond + 17*time.Nanosecond

// observe looks at every node's keys every now and then. An owner whose release
// a node executed less than a lease ago, and which it shows, is recorded with
// both; that is as long as a release protects from an acquire that comes late.
// At the end, each key that is left is recorded.
func (v *virtual) observe(h *History, lease time.Duration) func() {
	var watches []*watch
	for _, node := range v.nodes.Nodes() {
		w := &watch{node: node, history: h, lease: lease, releases: map[string]bool{}, cleaned: map[string]time.Duration{}, told: map[string]bool{}}
		node.Intercept(w.intercept)
		watches = append(watches, w)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for ticker := time.NewTicker(lookEvery); ; {
			select {
			case <-ticker.C:
				for _, w := range watches {
					w.look(false)
				}
			case <-stop:
				ticker.Stop()
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		for _, w := range watches {
			w.look(true)
			w.node.Intercept(nil)
		}
	}
}

// watch sees what releases a node executes.
type watch struct {
	node    *redlocktest.Node
	history *History
	lease   time.Duration

	mu       sync.Mutex               // guards the rest
	releases map[string]bool          // hashes of scripts: one that releases a batch?
	cleaned  map[string]time.Duration // by owner: when its release was executed
	told     map[string]bool          // owners whose litter was recorded
}

// intercept lets every command pass, and notes the releases. They are told by
// the first line of the script: redlock's say what they are, and the plain ones
// are known.
func (w *watch) intercept(args []string) redlocktest.Verdict {
	switch {
	case args[0] == "SCRIPT" && len(args) == 3 && strings.HasPrefix(args[2], "-- release"):
		sum := sha1.Sum([]byte(args[2])) //nolint:gosec // the name that Redis gives a script, not a secret
		w.mu.Lock()
		w.releases[hex.EncodeToString(sum[:])] = strings.HasPrefix(args[2], "-- release_batch")
		w.mu.Unlock()
	case args[0] == "EVAL" && len(args) == 5 && args[1] == deleteIfOurs:
		w.released(args[4:])
	case args[0] == "EVALSHA" && len(args) > 3:
		w.mu.Lock()
		batch, release := w.releases[args[1]]
		w.mu.Unlock()
		keys, err := strconv.Atoi(args[2])
		if !release || err != nil || len(args) < 4+keys {
			break
		}
		owners := args[3+keys:]
		if !batch {
			w.released(owners[:1])
		} else if n, err := strconv.Atoi(owners[0]); err == nil && n < len(owners) {
			w.released(owners[1 : 1+n])
		}
	}
	return redlocktest.Pass()
}

func (w *watch) released(owners []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, owner := range owners {
		w.cleaned[strings.Clone(owner)] = w.history.Now()
	}
}

// look compares the node's keys with what was released.
func (w *watch) look(all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.history.Now()
	maps.DeleteFunc(w.cleaned, func(_ string, at time.Duration) bool { return now-at > w.lease })
	mini := w.node.Miniredis()
	for _, key := range w.node.Keys() {
		owner, err := mini.Get(key)
		if err != nil || strings.HasPrefix(key, "redlock:") {
			continue // gone meanwhile, or the library's own
		}
		at, litter := w.cleaned[owner]
		if (!litter || w.told[owner]) && !all {
			continue
		}
		name := fmt.Sprintf("owner-%d", len(w.told)+1) // the value is random, the trace is not
		if litter {
			w.told[owner] = true
			w.history.Add(Record{Kind: Cleaned, Node: w.node.Name(), Owner: name, Text: fmt.Sprintf("at %v", at)})
		}
		until := time.Duration(0)
		if left := mini.TTL(key); left > 0 {
			until = now + left
		}
		w.history.Add(Record{Kind: Shown, Node: w.node.Name(), Owner: name, Resource: key, Until: until})
	}
}
