package set_test

import (
	"slices"
	"testing"

	"github.com/quorumkit/redlock/internal/set"
)

func TestNextKeepsWhatStandsBeforeTheFirstNameThatIsMissing(t *testing.T) {
	for _, tt := range []struct {
		n     int
		held  set.Names
		asked bool
		want  set.Step
	}{
		{1, 0b0, false, set.Step{Do: set.Ask}},
		{1, 0b0, true, set.Step{Do: set.Wait}},
		{1, 0b1, true, set.Step{Do: set.Done}},
		{3, 0b111, false, set.Step{Do: set.Done}},
		{3, 0b011, true, set.Step{Do: set.Wait, Name: 2}},
		{3, 0b101, true, set.Step{Do: set.Wait, Name: 1, Back: 0b100}},
		{3, 0b110, true, set.Step{Do: set.Wait, Name: 0, Back: 0b110}},
		{3, 0b110, false, set.Step{Do: set.Ask, Name: 0, Back: 0b110}},
		{3, 0b001, false, set.Step{Do: set.Ask, Name: 1}},
		{64, ^set.Names(0), true, set.Step{Do: set.Done}},
		{64, ^set.Names(0) >> 1, true, set.Step{Do: set.Wait, Name: 63}},
		{64, ^set.Names(1), true, set.Step{Do: set.Wait, Name: 0, Back: ^set.Names(1)}},
	} {
		if got := set.Next(tt.n, tt.held, tt.asked); got != tt.want {
			t.Errorf("Next(%d, %b, %t): got %+v; want %+v", tt.n, tt.held, tt.asked, got, tt.want)
		}
	}
}

// The rule in one sentence: one who waits holds only names below the one it waits for.
func TestWhoWaitsHoldsNothingAbove(t *testing.T) {
	const n = 6
	for held := range set.Of(n) {
		for _, asked := range []bool{false, true} {
			s := set.Next(n, held, asked)
			kept := held &^ s.Back
			if s.Back&^held != 0 {
				t.Errorf("held %b: gives back %b, which it does not hold", held, s.Back)
			}
			if kept != set.Of(s.Name) || held.Has(s.Name) {
				t.Errorf("held %b: keeps %b and lacks %d; want all below that one, and nothing else", held, kept, s.Name)
			}
		}
	}
}

func TestTheOrderIsThatOfBytes(t *testing.T) {
	keys := []string{"b", "a", "Z", "ä", "a/1", "\xff", "a\x00"}
	var got []string
	for _, i := range set.Order(keys) {
		got = append(got, keys[i])
	}
	if want := []string{"Z", "a", "a\x00", "a/1", "b", "ä", "\xff"}; !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}
