package report

import (
	"fmt"
	"slices"
	"strings"
)

func (d *drawing) clients() {
	if len(d.line.Clients) == 0 {
		return
	}
	d.group("what each client believes")
	in := newRows()
	for i, b := range d.line.Beliefs {
		in.place(i, b.Client, b.From, b.Until)
	}
	for _, c := range d.line.Clients {
		d.lane("client "+c, c, clientHeight+in.more(c))
	}
	several := d.severalResources()
	for _, w := range d.line.Waits {
		m := d.span("wait", w.From, w.Until, "", "%s asks for %q\nfrom %s to %s\n%s", w.Client, w.Resource, Clock(w.From), Clock(w.Until), w.outcome())
		m.Color = d.color[w.Client]
		d.put("client "+w.Client, 8, m)
	}
	for i, b := range d.line.Beliefs {
		shape, label := b.drawn(d.tokens)
		if several {
			label = b.Resource + " " + label
		}
		m := d.span(shape, b.From, b.Until, label, "%s believes it %s %q%s\nfrom %s to %s, for %s\n%s", b.Client, b.has(), b.Resource, b.slot(), Clock(b.From), Clock(b.Until), Clock(b.Until-b.From), b.end(d.tokens))
		m.Color = d.color[b.Client]
		d.putInRow("client "+b.Client, 3, in.row[i], in.of(b.Client), m)
		for _, at := range b.Extended {
			m := d.point("extended", at, "", "%s extends %q at %s", b.Client, b.Resource, Clock(at))
			m.Color = d.color[b.Client]
			d.putInRow("client "+b.Client, 3, in.row[i], in.of(b.Client), m)
		}
	}
}

// drawn is the belief's shape, and what is written into it.
func (b Belief) drawn(of tokens) (shape, label string) {
	token := of.label(b.Place(), b.Token)
	switch {
	case b.Shared:
		return "belief shared", "shares · " + token
	case b.Limit > 0:
		return "belief", fmt.Sprintf("slot %d · %s", b.Slot, token)
	}
	return "belief", token
}

// has is the verb.
func (b Belief) has() string {
	if b.Shared {
		return "shares"
	}
	return "holds"
}

func (b Belief) slot() string {
	if b.Limit == 0 {
		return ""
	}
	return fmt.Sprintf(", slot %d of %d", b.Slot, b.Limit)
}

// observers are told who holds what.
func (d *drawing) observers() {
	if len(d.line.Observers) == 0 {
		return
	}
	d.group("what each observer is told")
	for _, o := range d.line.Observers {
		d.lane("observer "+o, o, nodeHeight)
	}
	for _, s := range d.line.Sights {
		shape, label, what := "sight", s.Leader, fmt.Sprintf("%s has %q", s.Value, s.Resource)
		if s.Value == "" {
			shape, label, what = "sight nobody", "nobody", fmt.Sprintf("nobody has %q", s.Resource)
		}
		if s.Token > 0 {
			what += fmt.Sprintf(", by token %d", s.Token)
		}
		m := d.span(shape, s.From, s.Until, label, "%s is told that %s\nfrom %s to %s", s.Observer, what, Clock(s.From), Clock(s.Until))
		m.Color = d.color[s.Leader]
		d.put("observer "+s.Observer, 4, m)
	}
}

func (w Wait) outcome() string {
	tried := fmt.Sprintf("%d attempts in vain", w.Failed)
	if w.Failed == 1 {
		tried = "1 attempt in vain"
	}
	if w.Held {
		return tried + ", then it has the lock"
	}
	return tried + ", then it gives up"
}

func (b Belief) end(of tokens) string { return of.words(b.Place(), b.Token) + "; " + b.How }

func (d *drawing) severalResources() bool {
	return len(slices.Compact(slices.Sorted(slices.Values(d.resourceNames())))) > 1
}

// resourceNames are those of the beliefs, waits and writes, sorted.
func (d *drawing) resourceNames() []string {
	var names []string
	for _, w := range d.line.Waits {
		names = append(names, w.Resource)
	}
	for _, w := range d.line.Writes {
		names = append(names, w.Resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (d *drawing) nodes() {
	if len(d.line.Nodes) == 0 {
		return
	}
	d.group("what each node stores, and how it is")
	in := newRows()
	for i, k := range d.line.Keys {
		in.place(i, k.Node, k.From, k.Until)
	}
	for _, n := range d.line.Nodes {
		d.lane("node "+n, n, nodeHeight+in.more(n))
	}
	several := d.severalResources()
	for i, k := range d.line.Keys {
		shape, label := "key", k.Client
		if k.Shared {
			shape = "key shared"
		}
		if several {
			label += ": " + k.Resource
		}
		m := d.span(shape, k.From, k.Until, label, "%s has the key of %q\nfor %s (attempt %d)\nfrom %s to %s", k.Node, k.Resource, k.Client, k.Hold, Clock(k.From), Clock(k.Until))
		m.Color = d.color[k.Client]
		d.putInRow("node "+k.Node, 4, in.row[i], in.of(k.Node), m)
	}
	for _, s := range d.line.States {
		d.put("node "+s.Node, 1, d.span(s.Is, s.From, s.Until, s.Is, "%s is %s\nfrom %s to %s\n%s", s.Node, s.Is, Clock(s.From), Clock(s.Until), s.Means))
	}
}

// resources are the writes, and what the judge says.
func (d *drawing) resources() {
	flags := d.Run.Flags
	for _, name := range d.resourceNames() {
		d.group(fmt.Sprintf("writes to the resource %q", name))
		d.lane("accepted "+name, "accepted", writeHeight)
		if slices.ContainsFunc(flags, func(v Flag) bool { return v.Stale && v.Resource == name }) {
			d.lane("stale "+name, "… but stale", writeHeight)
		}
		if slices.ContainsFunc(d.line.Writes, func(w Write) bool { return w.Refused && w.Resource == name }) {
			d.lane("refused "+name, "refused", writeHeight)
		}
	}
	d.writes(flags)
	if len(flags) == 0 {
		return
	}
	d.group("what the judge says")
	d.lane("judge", "rule broken", writeHeight)
	for _, v := range flags {
		d.put("judge", 3, d.point("flag", v.At, v.Rule, "%s at %s\n%s", v.Rule, Clock(v.At), v.Text))
	}
}

// bundle is writes of one lane that are nearer than a label: each would lie upon the one
// before, and hide who wrote.
type bundle struct {
	lane    string
	mark    figure
	clients []string
}

// writes puts the writes into their lanes, those of a bundle as one mark.
func (d *drawing) writes(flags []Flag) {
	var all []*bundle
	last := map[string]*bundle{}
	for _, w := range d.line.Writes {
		lane, m := d.writeMark(w, flags)
		if b := last[lane]; b != nil && (m.X-b.mark.X)/100*usualWidth < float64(labelWidth(b.mark.Label+", refused")) {
			b.clients = append(b.clients, w.Client)
			b.mark.Tip += "\n\n" + m.Tip
			continue
		}
		last[lane] = &bundle{lane, m, []string{w.Client}}
		all = append(all, last[lane])
	}
	for _, b := range all {
		if n := len(b.clients); n > 1 {
			b.mark.Label = fmt.Sprintf("%d writes: %s", n, strings.Join(b.clients[:min(n, mostNames)], ", "))
			if n > mostNames {
				b.mark.Label += ", …"
			}
		}
		d.put(b.lane, 3, b.mark)
	}
}

// mostNames is how many of a bundle are named: its tip has all.
const mostNames = 3

// writeMark is a write, its lane before it.
func (d *drawing) writeMark(w Write, flags []Flag) (string, figure) {
	stale := slices.ContainsFunc(flags, func(v Flag) bool {
		return v.Stale && v.At == w.At && v.Resource == w.Resource && strings.HasPrefix(v.Text, w.Client+" ")
	})
	lane, shape, how := "accepted ", "wrote", "is accepted"
	switch {
	case w.Refused:
		lane, shape, how = "refused ", "refused", "is refused: the guard has seen a greater token"
	case stale:
		lane, shape, how = "stale ", "stale", "is accepted, and stale: a later holder had written"
	}
	label := w.Client
	if w.Token > 0 {
		label += ", " + d.tokens.label(w.Resource, w.Token)
	}
	m := d.point(shape, w.At, label, "%s writes to %q at %s\n%s\n%s", w.Client, w.Resource, Clock(w.At), d.tokens.words(w.Resource, w.Token), how)
	m.Color = d.color[w.Client]
	return lane + w.Resource, m
}
