package fencing_test

import (
	"errors"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

func TestWhatWasSeenIsWrittenInOneWay(t *testing.T) {
	for _, tt := range []struct {
		seen fencing.Seen
		text string
	}{
		{fencing.Seen{Exclusive: 7}, "7"},
		{fencing.Seen{Shared: 8}, "0 8"},
		{fencing.Seen{Exclusive: 7, Shared: 8}, "7 8"},
		{fencing.Seen{Exclusive: redlock.MaxToken}, "9007199254740991"},
		{fencing.Seen{Exclusive: redlock.MaxToken - 1, Shared: redlock.MaxToken}, "9007199254740990 9007199254740991"},
	} {
		if got := tt.seen.String(); got != tt.text {
			t.Errorf("%+v: got %q; want %q", tt.seen, got, tt.text)
		}
		if got, err := fencing.ParseSeen(tt.text); got != tt.seen || err != nil {
			t.Errorf("%q: got %+v, %v; want %+v", tt.text, got, err, tt.seen)
		}
	}
	// The shared number decides nothing.
	if got := (fencing.Seen{Exclusive: 9, Shared: 8}).String(); got != "9" {
		t.Errorf("got %q; want 9", got)
	}
}

func TestWhatNoGuardKeepsIsCorrupt(t *testing.T) {
	for _, text := range []string{
		"", "0", "0 0", " ", "7 ", " 7", "7 7", "8 7", "7  8", "7 8 9", "07", "7 08", "00 8", "+7", "7,8", "0x7 8",
		"9007199254740992", "7 9007199254740992", "word", "word 7", "7 word",
	} {
		if got, err := fencing.ParseSeen(text); !errors.Is(err, fencing.ErrCorrupt) || got != (fencing.Seen{}) {
			t.Errorf("%q: got %+v, %v; want ErrCorrupt", text, got, err)
		}
	}
}

func FuzzParseSeen(f *testing.F) {
	for _, seed := range []string{"", "0", "7", "7 8", "0 8", "8 7", "07", "9007199254740991", "7\x008"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := fencing.ParseSeen(text)
		if (err != nil) != (got == fencing.Seen{}) || err != nil && !errors.Is(err, fencing.ErrCorrupt) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
		if err == nil && got.String() != text {
			t.Errorf("%q: got %q; want one spelling", text, got)
		}
	})
}
