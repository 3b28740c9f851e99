package chaos

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumkit/redlock/internal/lab/simnode"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/lua"
)

// keptKey is what was recorded of a key that a node has.
type keptKey struct {
	owner string
	until time.Duration
}

// keeps records what keys the node has now, as far as that is news, and for whom, as the
// senders know it. mu is held. Those that several share are not among them.
func (w *watch) keeps(keys []simnode.Key, now time.Duration) {
	if w.history.senders == nil {
		return
	}
	gone := maps.Clone(w.kept)
	var news []Record
	for _, key := range keys {
		if key.Type != "string" || strings.HasPrefix(key.Name, lua.OwnPrefix) && lua.NameOf(key.Name) == key.Name {
			continue
		}
		delete(gone, key.Name)
		is := keptKey{key.Value, endsIn(now, key.Left)}
		if was, known := w.kept[key.Name]; known && was.owner == is.owner && (is.until-was.until).Abs() < sameExpiry {
			continue
		}
		w.kept[key.Name] = is
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
		delete(w.kept, name)
		news = append(news, w.storedKey(name))
	}
	w.history.addAll(news)
}

// storedKey is a record of a key of the node.
func (w *watch) storedKey(key string) Record {
	r := Record{Kind: trace.Stored, Node: w.name, Resource: key}
	if name, slot, ok := lua.SlotOf(key); ok {
		r.Resource, r.Slot, r.Limit = name, slot, slot+1
	}
	return r
}
