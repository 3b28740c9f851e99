package lua_test

import (
	"testing"

	"github.com/quorumkit/redlock/internal/lua"
)

const random = "0f8fad5b-d9cb-469f-a165-70867728950e"

func TestAnOwnerValueSaysItsValue(t *testing.T) {
	for _, holder := range []string{"", "web-1", "web-1/", "#", "a#3#", "ünï "} {
		for _, value := range []string{"10.0.0.7:8080", "a#1#", "#", "##", "12", "ö", holder + "x"} {
			got, ours := lua.ValueOf(lua.HolderLabel(holder) + lua.ValueLabel(value) + random)
			if !ours || got != value {
				t.Errorf("holder %q, value %q: got %q, %v; want the value", holder, value, got, ours)
			}
		}
	}
	for _, holder := range []string{"", "web-1", "web-1/", "#", "a#x#", "a#9#", "a#-1#", "a#1#", "v#1#", "~AbCdEfGhIjKlMnOpQr_-09~", "~AbCdEfGhIjKlMnOpQr_-09~v#1#"} {
		if got, ours := lua.ValueOf(lua.HolderLabel(holder) + random); !ours || got != holder {
			t.Errorf("holder %q, no value: got %q, %v; want the label", holder, got, ours)
		}
	}
}

func TestWhatEndsOtherwiseIsNoOwnerValue(t *testing.T) {
	for _, owner := range []string{
		"", "x", "fsdUq0f2v1Dm7cZtPw3yXg==", random[1:], random + ":17",
		"0f8fad5b-d9cb-169f-a165-70867728950e", "0F8FAD5B-D9CB-469F-A165-70867728950E", "0f8fad5bxd9cb-469f-a165-70867728950e",
	} {
		if got, ours := lua.ValueOf(owner); ours {
			t.Errorf("%q: got the value %q; want it to be foreign", owner, got)
		}
	}
}

func TestAMarkSaysWhomToAsk(t *testing.T) {
	const id = "AbCdEfGhIjKlMnOpQr_-09"
	mark := lua.RevocationMark(id)
	for _, label := range []string{"", "web-1", "~", "a~b~", "x#1", "~" + id, "a" + mark, mark + "v#1#", mark + "#0#"} {
		holder := lua.HolderLabel(label)
		for _, value := range []string{"", "10.0.0.7:8080", "~", mark, "a" + mark} {
			plain := holder + lua.ValueLabel(value) + random
			owner := holder + mark + lua.ValueLabel(value) + random
			if got, ok := lua.LockerOf(owner); !ok || got != id {
				t.Errorf("%q: got the Locker %q, %v; want %q", owner, got, ok, id)
			}
			if got, ok := lua.LockerOf(plain); ok {
				t.Errorf("%q: got the Locker %q; want none", plain, got)
			}
			if got := lua.Unmarked(owner); got != plain {
				t.Errorf("%q without its mark: got %q; want %q", owner, got, plain)
			}
			if got := lua.Unmarked(plain); got != plain {
				t.Errorf("%q: got %q; want it as it is", plain, got)
			}
			got, _ := lua.ValueOf(owner)
			if want, _ := lua.ValueOf(plain); got != want {
				t.Errorf("%q: got the value %q; want %q", owner, got, want)
			}
		}
	}
	for _, foreign := range []string{"", mark, mark + "x", mark + random + "x"} {
		if got, ok := lua.LockerOf(foreign); ok || lua.Unmarked(foreign) != foreign {
			t.Errorf("%q: got the Locker %q; want none", foreign, got)
		}
	}
}

func TestAMarkIsKnownByItsForm(t *testing.T) {
	const id = "AbCdEfGhIjKlMnOpQr_-09"
	for label, want := range map[string]bool{
		"~" + id + "~": true, "x~" + id + "~": true,
		"": false, "~~": false, "~" + id: false, id + "~": false, "~" + id + "x~": false, "~" + id[1:] + "~": false, "~" + id[1:] + ".~": false,
	} {
		if got := lua.EndsInMark(label); got != want {
			t.Errorf("%q: got %v; want %v", label, got, want)
		}
	}
}

// FuzzOwner: no matter what stands under a key, only a revocable hold of ours has a Locker to
// ask, and it alone loses a mark.
func FuzzOwner(f *testing.F) {
	id := "AAAAAAAAAAAAAAAAAAAAAA"
	for _, owner := range []string{"", random, "x" + random, lua.RevocationMark(id) + random, "web-1/" + lua.RevocationMark(id) + lua.ValueLabel("v") + random, "#9#" + random, "~~" + random} {
		f.Add(owner)
	}
	f.Fuzz(func(t *testing.T, owner string) {
		of, revocable := lua.LockerOf(owner)
		plain := lua.Unmarked(owner)
		if revocable != (plain != owner) || revocable && len(owner)-len(plain) != len(lua.RevocationMark(of)) {
			t.Fatalf("%q: got the Locker %q, %t, and %q without its mark", owner, of, revocable, plain)
		}
		value, ours := lua.ValueOf(owner)
		if without, same := lua.ValueOf(plain); ours != same || len(without) > len(value) {
			t.Fatalf("%q: got the value %q, %t; and %q, %t without its mark", owner, value, ours, without, same)
		}
	})
}
