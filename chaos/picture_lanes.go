package chaos

import (
	"fmt"
	"slices"
	"strings"
)

func (d *drawing) clients() {
	if len(d.line.clients) == 0 {
		return
	}
	d.group("what each client believes")
	for _, c := range d.line.clients {
		d.lane("client "+c, c, clientHeight)
	}
	several := d.severalResources()
	for _, w := range d.line.waits {
		m := d.span("wait", w.from, w.until, "", "%s asks for %q\nfrom %s to %s\n%s", w.client, w.resource, clock(w.from), clock(w.until), w.outcome())
		m.Color = d.color[w.client]
		d.put("client "+w.client, 8, m)
	}
	for _, b := range d.line.beliefs {
		label := tokenLabel(b.token)
		if several {
			label = b.resource + " " + label
		}
		m := d.span("belief", b.from, b.until, label, "%s believes it holds %q\nfrom %s to %s, for %s\n%s", b.client, b.resource, clock(b.from), clock(b.until), clock(b.until-b.from), b.end())
		m.Color = d.color[b.client]
		d.put("client "+b.client, 3, m)
		for _, at := range b.extended {
			d.put("client "+b.client, 3, d.point("extended", at, "", "%s extends %q at %s", b.client, b.resource, clock(at)))
		}
	}
}

func (w wait) outcome() string {
	tried := fmt.Sprintf("%d attempts in vain", len(w.failed))
	if len(w.failed) == 1 {
		tried = "1 attempt in vain"
	}
	if w.held {
		return tried + ", then it has the lock"
	}
	return tried + ", then it gives up"
}

func (b belief) end() string {
	if b.token == 0 {
		return "no token; " + b.how
	}
	return fmt.Sprintf("token %d; %s", b.token, b.how)
}

func (d *drawing) severalResources() bool {
	return len(slices.Compact(slices.Sorted(slices.Values(d.resourceNames())))) > 1
}

// resourceNames are those of the beliefs, waits and writes, sorted.
func (d *drawing) resourceNames() []string {
	var names []string
	for _, w := range d.line.waits {
		names = append(names, w.resource)
	}
	for _, w := range d.line.writes {
		names = append(names, w.resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (d *drawing) nodes() {
	if len(d.line.nodes) == 0 {
		return
	}
	d.group("what each node stores, and how it is")
	for i, n := range d.line.nodes {
		d.lane("node "+n, n, nodeHeight)
		d.lanes[fmt.Sprintf("node #%d", i)] = d.lanes["node "+n]
	}
	several := d.severalResources()
	for _, k := range d.line.keys {
		label := k.what
		if several {
			label += ": " + k.resource
		}
		m := d.span("key", k.from, k.until, label, "%s has the key of %q\nfor %s (attempt %d)\nfrom %s to %s", k.node, k.resource, k.what, k.hold, clock(k.from), clock(k.until))
		m.Color = d.color[k.what]
		d.put("node "+k.node, 4, m)
	}
	for _, s := range d.line.states {
		if s.what != Member {
			d.put("node "+s.node, 1, d.span(s.what, s.from, s.until, s.what, "%s is %s\nfrom %s to %s\n%s", s.node, s.what, clock(s.from), clock(s.until), stateMeans[s.what]))
		}
	}
}

var stateMeans = map[string]string{
	Blank:  "it answers, but has forgotten: redlock does not let it vote",
	Silent: "it does not answer",
}

// resources are the writes, and what the judge says.
func (d *drawing) resources() {
	flags := slices.DeleteFunc(slices.Clone(d.Run.Verdict.Violations), func(v Violation) bool { return v.Rule == TwoHolders })
	for _, name := range d.resourceNames() {
		d.group(fmt.Sprintf("writes to the resource %q", name))
		d.lane("accepted "+name, "accepted", writeHeight)
		if slices.ContainsFunc(flags, func(v Violation) bool { return v.Rule == StaleWrite && v.Resource == name }) {
			d.lane("stale "+name, "… but stale", writeHeight)
		}
		if slices.ContainsFunc(d.line.writes, func(w write) bool { return w.refused && w.resource == name }) {
			d.lane("refused "+name, "refused", writeHeight)
		}
	}
	for _, w := range d.line.writes {
		d.put(d.writeMark(w, flags))
	}
	if len(flags) == 0 {
		return
	}
	d.group("what the judge says")
	d.lane("judge", "rule broken", writeHeight)
	for _, v := range flags {
		d.put("judge", 3, d.point("flag", v.At, string(v.Rule), "%s at %s\n%s", v.Rule, clock(v.At), v.Text))
	}
}

// writeMark is a write, its lane and inset before it.
func (d *drawing) writeMark(w write, flags []Violation) (string, int, figure) {
	stale := slices.ContainsFunc(flags, func(v Violation) bool {
		return v.Rule == StaleWrite && v.At == w.at && v.Resource == w.resource && strings.HasPrefix(v.Text, w.client+" ")
	})
	lane, shape, how := "accepted ", "wrote", "is accepted"
	switch {
	case w.refused:
		lane, shape, how = "refused ", "refused", "is refused: the guard has seen a greater token"
	case stale:
		lane, shape, how = "stale ", "stale", "is accepted, and stale: a later holder had written"
	}
	token := "no token"
	if w.token > 0 {
		token = fmt.Sprintf("token %d", w.token)
	}
	m := d.point(shape, w.at, w.client, "%s writes to %q at %s\n%s\n%s", w.client, w.resource, clock(w.at), token, how)
	m.Color = d.color[w.client]
	return lane + w.resource, 3, m
}
