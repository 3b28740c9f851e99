package chaos

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock/chaos/internal/simnode"
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
	for _, node := range v.nodes {
		w := &watch{node: node.sim, name: node.name, history: h, lease: lease, releases: map[string]bool{}, cleaned: map[string]time.Duration{}, told: map[string]bool{}}
		w.node.Watch(w.saw)
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
			w.node.Watch(nil)
		}
	}
}

// watch sees what releases a node executes.
type watch struct {
	node    *simnode.Node
	name    string
	history *History
	lease   time.Duration

	mu       sync.Mutex               // guards the rest; taken after the node's
	releases map[string]bool          // hashes of scripts: one that releases a batch?
	cleaned  map[string]time.Duration // by owner: when its release was executed
	told     map[string]bool          // owners whose litter was recorded
	memory   int                      // which one the node had then
}

// saw notes the releases among the commands that the node executes. They are told
// by the first line of the script: redlock's say what they are, and the plain
// ones are known.
func (w *watch) saw(args [][]byte) {
	if len(args) < 3 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch string(args[0]) {
	case "EVALSHA":
		batch, release := w.releases[string(args[1])]
		keys, err := strconv.Atoi(string(args[2]))
		if !release || err != nil || len(args) < 4+keys {
			return
		}
		owners := args[3+keys:]
		if !batch {
			w.released(owners[:1])
		} else if n, err := strconv.Atoi(string(owners[0])); err == nil && n < len(owners) {
			w.released(owners[1 : 1+n])
		}
	case "eval", "EVAL":
		if len(args) == 5 && string(args[1]) == deleteIfOurs {
			w.released(args[4:])
		}
	case "script", "SCRIPT":
		if body := args[2]; bytes.HasPrefix(body, []byte("-- release")) {
			sum := sha1.Sum(body) //nolint:gosec // the name that Redis gives a script, not a secret
			w.releases[hex.EncodeToString(sum[:])] = bytes.HasPrefix(body, []byte("-- release_batch"))
		}
	}
}

// released notes that these owners' locks were released; mu is held.
func (w *watch) released(owners [][]byte) {
	for _, owner := range owners {
		w.cleaned[string(owner)] = w.history.Now()
	}
}

// look compares the node's keys with what was released. A node that came back
// with other data has executed nothing yet.
func (w *watch) look(all bool) {
	keys, memory := w.node.Keys()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.history.Now()
	if memory != w.memory {
		clear(w.cleaned)
		w.memory = memory
	}
	maps.DeleteFunc(w.cleaned, func(_ string, at time.Duration) bool { return now-at > w.lease })
	for _, key := range keys {
		if key.Type != "string" || strings.HasPrefix(key.Name, "redlock:") {
			continue // the library's own
		}
		at, litter := w.cleaned[key.Value]
		if (!litter || w.told[key.Value]) && !all {
			continue
		}
		name := fmt.Sprintf("owner-%d", len(w.told)+1) // the value is random, the trace is not
		if litter {
			w.told[key.Value] = true
			w.history.Add(Record{Kind: Cleaned, Node: w.name, Owner: name, Text: fmt.Sprintf("at %v", at)})
		}
		until := time.Duration(0)
		if key.Left >= 0 {
			until = now + key.Left
		}
		w.history.Add(Record{Kind: Shown, Node: w.name, Owner: name, Resource: key.Name, Until: until})
	}
}
