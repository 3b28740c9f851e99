package report

import "fmt"

// grants are arrows from the one who released to the one who was granted the lock by that: from the
// time of the release to when the first node told of it.
func (d *drawing) grants() {
	for _, g := range d.line.Grants {
		from, known := d.lanes["client "+g.By]
		to, also := d.lanes["client "+g.Client]
		if !known || !also {
			continue
		}
		m := d.span("grant", g.Released, g.From, "", "%s", g.tip(len(d.line.Nodes)))
		m.At = g.From.Seconds()
		m.Y = d.Lanes[from].Mid()
		m.H = d.Lanes[to].Mid() - m.Y
		d.Lanes[to].Marks = append(d.Lanes[to].Marks, m)
	}
}

func (g Grant) tip(nodes int) string {
	said := fmt.Sprintf("%d of %d nodes tell it", len(g.Nodes), nodes)
	if g.Until == g.From {
		return fmt.Sprintf("%s releases %q at %s, which grants it to %s\n%s at %s", g.By, g.Resource, Clock(g.Released), g.Client, said, Clock(g.From))
	}
	return fmt.Sprintf("%s releases %q at %s, which grants it to %s\n%s from %s to %s", g.By, g.Resource, Clock(g.Released), g.Client, said, Clock(g.From), Clock(g.Until))
}
