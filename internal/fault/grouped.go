package fault

import "strings"

// Grouped is what is said of each of several nodes: what is the same of some is said once.
type Grouped struct {
	names [][]string
	words []string
}

// Add adds what is said of one.
func (g *Grouped) Add(name, words string) {
	for i, w := range g.words {
		if w == words {
			g.names[i] = append(g.names[i], name)
			return
		}
	}
	g.names, g.words = append(g.names, []string{name}), append(g.words, words)
}

// Each gives each group's names, as a list, and how many they are, in the order in which
// they were added.
func (g *Grouped) Each(say func(names string, n int, words string)) {
	for i, w := range g.words {
		say(strings.Join(g.names[i], ", "), len(g.names[i]), w)
	}
}
