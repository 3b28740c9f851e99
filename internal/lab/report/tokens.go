package report

import (
	"fmt"
	"slices"
)

// tokens are those of a picture, by what they are of: a resource, or a slot of it. Their
// order is what counts, and it is not seen in their digits.
type tokens map[string][]uint64

// tokensOf are those that clients held or wrote with, sorted, each once.
func tokensOf(line Timeline) tokens {
	all := tokens{}
	for _, b := range line.Beliefs {
		all[b.Place()] = append(all[b.Place()], b.Token)
	}
	for _, w := range line.Writes {
		if _, there := all[w.Resource]; there { // else it is of a slot, whose holder has it
			all[w.Resource] = append(all[w.Resource], w.Token)
		}
	}
	for place, of := range all {
		slices.Sort(of)
		all[place] = slices.DeleteFunc(slices.Compact(of), func(token uint64) bool { return token == 0 })
	}
	return all
}

// rank is which token it is of so many; 0: it is none of them.
func (t tokens) rank(place string, token uint64) (rank, of int) {
	i, found := slices.BinarySearch(t[place], token)
	if !found {
		return 0, len(t[place])
	}
	return i + 1, len(t[place])
}

// label is a token in short.
func (t tokens) label(place string, token uint64) string {
	rank, _ := t.rank(place, token)
	switch {
	case token == 0:
		return "no token"
	case rank == 0:
		return fmt.Sprintf("token %d", token)
	}
	return fmt.Sprintf("token #%d", rank)
}

// words is all that there is to say of a token.
func (t tokens) words(place string, token uint64) string {
	rank, of := t.rank(place, token)
	switch {
	case token == 0:
		return "no token"
	case rank == 0:
		return fmt.Sprintf("token %d", token)
	}
	return fmt.Sprintf("token %d, #%d of %d", token, rank, of)
}
