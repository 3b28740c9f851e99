package chaos

import (
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumkit/redlock/internal/lab/simnode"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/lua"
)

// lookEvery is how often keys are looked at.
const lookEvery = 250*time.Millisecond + 17*time.Nanosecond

// observe records litter in a history until the function that it returns is
// called: it looks at every node's keys every now and then. An owner whose release
// a node answered less than a lease ago, and which it shows, is recorded with
// both; that is as long as a release protects from an acquire that comes late.
// With all, each key that is left at the end is recorded.
func observe(stage Stage, h *history, lease time.Duration) (stop func(all bool)) {
	o, ok := stage.(inspectable)
	if !ok {
		return func(bool) {}
	}
	var watches []*watch
	names := stage.Names()
	for i, node := range o.observables() {
		w := &watch{node: node, name: names[i], history: h, lease: lease, releases: map[string]bool{}, cleaned: map[string]time.Duration{}, told: map[string]bool{}, retained: map[string]retainedKey{}}
		node.answers(w.command)
		watches = append(watches, w)
	}
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for ticker := time.NewTicker(lookEvery); ; {
			select {
			case <-ticker.C:
				for _, w := range watches {
					w.look(false)
				}
			case <-stopping:
				ticker.Stop()
				return
			}
		}
	}()
	return func(all bool) {
		close(stopping)
		<-stopped
		for _, w := range watches {
			w.look(all)
			w.node.answers(nil)
		}
	}
}

// watch sees what releases a node answers.
type watch struct {
	node    observable
	name    string
	history *history
	lease   time.Duration

	mu       sync.Mutex               // guards the rest; taken after the node's own
	releases map[string]bool          // hashes of scripts: one that releases a batch?
	cleaned  map[string]time.Duration // by owner: when its release was answered
	told     map[string]bool          // owners whose litter was recorded, and keys whose end was
	retained map[string]retainedKey   // what was recorded that the node has, by key
	memory   int                      // which one the node had then
	list     Record                   // the latest of its kind
}

// command notes the releases among the commands that the node answers. They are told
// by the first line of the script: redlock's say what they are, and the plain
// ones are known.
func (w *watch) command(args [][]byte) {
	if len(args) < 3 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch strings.ToLower(string(args[0])) {
	case "evalsha":
		batch, release := w.releases[string(args[1])]
		keys, err := strconv.Atoi(string(args[2]))
		if !release || err != nil || len(args) < 4+keys {
			return
		}
		owners := args[3+keys:]
		if !batch {
			w.releasedLocked(owners[:1])
		} else if n, err := strconv.Atoi(string(owners[0])); err == nil && n < len(owners) {
			w.releasedLocked(owners[1 : 1+n])
		}
	case "eval":
		if len(args) == 5 && string(args[1]) == deleteIfOurs {
			w.releasedLocked(args[4:])
		}
	case "script":
		if body := args[2]; bytes.HasPrefix(body, []byte("-- release")) {
			sum := sha1.Sum(body) //nolint:gosec // the name that Redis gives a script, not a secret
			w.releases[hex.EncodeToString(sum[:])] = bytes.HasPrefix(body, []byte("-- release_batch")) || bytes.HasPrefix(body, []byte("-- release_shared"))
		}
	}
}

// releasedLocked notes that these owners' locks were released.
func (w *watch) releasedLocked(owners [][]byte) {
	for _, owner := range owners {
		w.cleaned[string(owner)] = w.history.Now()
	}
}

// look compares the node's keys with what was released. A node that came back
// with other data has executed nothing yet.
func (w *watch) look(all bool) {
	now := w.history.Now()
	keys, memory, ok := w.node.stores()
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if memory != w.memory {
		clear(w.cleaned)
		w.memory = memory
	}
	maps.DeleteFunc(w.cleaned, func(_ string, at time.Duration) bool { return now-at > w.lease })
	w.retainsLocked(keys, now)
	w.listsLocked(keys)
	for _, key := range keys {
		switch {
		case strings.HasPrefix(key.Name, lua.OwnPrefix) && lua.NameOf(key.Name) == key.Name: // the library's own, and no slot
		case key.Type == "string":
			w.showsLocked(key, now, all)
		case len(key.Sharers) > 0:
			w.showsSharedLocked(key, now, all)
		}
	}
}

// showsLocked records a key if it is litter, or all are wanted.
func (w *watch) showsLocked(key simnode.Key, now time.Duration, all bool) {
	at, litter := w.litterLocked(key.Value, now)
	if (!litter || w.told[key.Value]) && !all {
		return
	}
	r := Record{Kind: trace.Shown, Node: w.name, Owner: w.named(), Resource: key.Name, Until: endsIn(now, key.Left)}
	if name, slot, ok := lua.SlotOf(key.Name); ok {
		r.Resource, r.Slot, r.Limit = name, slot, slot+1
	}
	if litter {
		w.told[key.Value] = true
		w.history.Add(w.wasCleaned(r.Owner, at))
	}
	w.history.Add(r)
}

// showsSharedLocked records all that share a key if one of them is litter, or the key does not
// end with the last of them, or all keys are wanted.
func (w *watch) showsSharedLocked(key simnode.Key, now time.Duration, all bool) {
	var cleaned, shown []Record
	last := time.Duration(math.MinInt64)
	for _, s := range key.Sharers {
		last = max(last, s.Left)
		r := Record{Kind: trace.Shown, Node: w.name, Owner: fmt.Sprintf("%s.%d", w.named(), len(shown)+1), Resource: key.Name, Until: max(now+s.Left, 1), Ends: endsIn(now, key.Left), Shared: true}
		shown = append(shown, r)
		if at, litter := w.litterLocked(s.Owner, now); litter && (all || !w.told[s.Owner]) {
			w.told[s.Owner] = true
			cleaned = append(cleaned, w.wasCleaned(r.Owner, at))
		}
	}
	if len(cleaned) > 0 || last != key.Left && !w.told[key.Name] || all {
		w.told[key.Name] = w.told[key.Name] || last != key.Left
		w.history.addAll(append(cleaned, shown...))
	}
}

// litterLocked tells whether an owner's lock was released before now, and when.
func (w *watch) litterLocked(owner string, now time.Duration) (at time.Duration, litter bool) {
	at, released := w.cleaned[owner]
	return at, released && at < now
}

// named is a name for the next owner: its value is random, the trace is not.
func (w *watch) named() string { return fmt.Sprintf("owner-%d", len(w.told)+1) }

func (w *watch) wasCleaned(owner string, at time.Duration) Record {
	return Record{Kind: trace.Cleaned, Node: w.name, Owner: owner, Text: fmt.Sprintf("at %v", at)}
}

// endsIn is when a key expires that has so much left; 0: never.
func endsIn(now, left time.Duration) time.Duration {
	if left < 0 {
		return 0
	}
	return max(now+left, 1)
}

// retainedKey is what was recorded of a key that a node has.
type retainedKey struct {
	owner string
	until time.Duration
}

// retainsLocked records what keys the node has now, as far as that is news, and for whom, as the
// senders know it. Those that several share are not among them.
func (w *watch) retainsLocked(keys []simnode.Key, now time.Duration) {
	if w.history.senders == nil {
		return
	}
	gone := maps.Clone(w.retained)
	var news []Record
	for _, key := range keys {
		if key.Type != "string" || strings.HasPrefix(key.Name, lua.OwnPrefix) && lua.NameOf(key.Name) == key.Name {
			continue
		}
		delete(gone, key.Name)
		is := retainedKey{key.Value, endsIn(now, key.Left)}
		if was, known := w.retained[key.Name]; known && was.owner == is.owner && (is.until-was.until).Abs() < sameExpiry {
			continue
		}
		w.retained[key.Name] = is
		r := w.storedKey(key.Name)
		if first, known := w.history.senders.of(key.Value); known {
			r.Client, r.Since = first.client, max(first.at, 1)
			if w.history.witness != nil { // a page tells attempts apart
				r.Hold = w.history.attemptAt(first.client, r.Resource, first.at)
			}
		} else {
			r.Client = "another"
		}
		r.Until = is.until
		news = append(news, r)
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		delete(w.retained, name)
		news = append(news, w.storedKey(name))
	}
	w.history.addAll(news)
}

// listsLocked records the configuration that the node's record has now, if that is news.
func (w *watch) listsLocked(keys []simnode.Key) {
	i := slices.IndexFunc(keys, func(k simnode.Key) bool { return k.Name == lua.NodeKey })
	if i < 0 {
		return
	}
	f := keys[i].Fields
	r := Record{Kind: trace.Listed, Node: w.name, Value: strings.ReplaceAll(f["names"], "\n", " "), Text: cmp.Or(f["gen"], "0") + " " + f["cluster"] + " " + f["maxttl"] + "ms"}
	if f["strict"] != "" {
		r.Text += " strict"
	}
	if r.Value != "" && (r.Value != w.list.Value || r.Text != w.list.Text) {
		w.list = r
		w.history.Add(r)
	}
}

// storedKey is a record of a key of the node.
func (w *watch) storedKey(key string) Record {
	r := Record{Kind: trace.Stored, Node: w.name, Resource: key}
	if name, slot, ok := lua.SlotOf(key); ok {
		r.Resource, r.Slot, r.Limit = name, slot, slot+1
	}
	return r
}
