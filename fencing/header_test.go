package fencing_test

import (
	"errors"
	"net/http"
	"strconv"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

func TestParseHeader(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []string
		token  redlock.Token
		want   error
	}{
		{"missing", nil, 0, fencing.ErrNoToken},
		{"one", []string{"1"}, 1, nil},
		{"the largest", []string{"9007199254740991"}, redlock.MaxToken, nil},
		{"above the largest", []string{"9007199254740992"}, 0, fencing.ErrTokenRange},
		{"17 digits", []string{"10000000000000000"}, 0, fencing.ErrInvalidHeader},
		{"more than 64 bits", []string{"18446744073709551617"}, 0, fencing.ErrInvalidHeader},
		{"empty", []string{""}, 0, fencing.ErrInvalidHeader},
		{"zero", []string{"0"}, 0, fencing.ErrInvalidHeader},
		{"leading zero", []string{"07"}, 0, fencing.ErrInvalidHeader},
		{"plus", []string{"+7"}, 0, fencing.ErrInvalidHeader},
		{"minus", []string{"-7"}, 0, fencing.ErrInvalidHeader},
		{"underscore", []string{"1_000"}, 0, fencing.ErrInvalidHeader},
		{"hexadecimal", []string{"0x10"}, 0, fencing.ErrInvalidHeader},
		{"fraction", []string{"7.0"}, 0, fencing.ErrInvalidHeader},
		{"exponent", []string{"1e3"}, 0, fencing.ErrInvalidHeader},
		{"space", []string{"7 "}, 0, fencing.ErrInvalidHeader},
		{"other digits", []string{"٧"}, 0, fencing.ErrInvalidHeader},
		{"word", []string{"seven"}, 0, fencing.ErrInvalidHeader},
		{"twice", []string{"7", "7"}, 0, fencing.ErrHeaderRepeated},
		{"twice, joined", []string{"7, 7"}, 0, fencing.ErrHeaderRepeated},
		{"twice, one empty", []string{"", "7"}, 0, fencing.ErrHeaderRepeated},
	} {
		h := http.Header{}
		for _, v := range tt.values {
			h.Add("fencing-token", v)
		}
		got, err := fencing.ParseHeader(h)
		if got != tt.token || !errors.Is(err, tt.want) {
			t.Errorf("%s: got %d, %v; want %d, %v", tt.name, got, err, tt.token, tt.want)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "007", "42", "9007199254740991", "9007199254740992", "1,2", "+1", "٧", "1\x00"} {
		f.Add(seed, "", false)
		f.Add(seed, "7", true)
	}
	f.Fuzz(func(t *testing.T, first, second string, twice bool) {
		h := http.Header{fencing.Header: {first}}
		if twice {
			h.Add(fencing.Header, second)
		}
		got, err := fencing.ParseHeader(h)
		if err != nil {
			if got != 0 {
				t.Errorf("%q: got %d beside %v; want 0", first, got, err)
			}
			if !errors.Is(err, fencing.ErrInvalidHeader) && !errors.Is(err, fencing.ErrHeaderRepeated) && !errors.Is(err, fencing.ErrTokenRange) {
				t.Errorf("%q: got %v; want one of the three", first, err)
			}
			return
		}
		// One spelling of each token: what was read is what was written.
		if twice || got == 0 || got > redlock.MaxToken || strconv.FormatUint(uint64(got), 10) != first {
			t.Errorf("%q, twice %t: got %d", first, twice, got)
		}
	})
}
