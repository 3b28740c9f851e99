package lua_test

import (
	"testing"

	"github.com/quorumkit/redlock/internal/lua"
)

const random = "0f8fad5b-d9cb-469f-a165-70867728950e"

func TestAnOwnerValueSaysItsValue(t *testing.T) {
	for _, holder := range []string{"", "web-1/", "#", "a#3#", "ünï "} {
		for _, value := range []string{"10.0.0.7:8080", "a#1#", "#", "##", "12", "ö", holder + "x"} {
			got, ours := lua.ValueOf(holder + lua.ValueLabel(value) + random)
			if !ours || got != value {
				t.Errorf("holder %q, value %q: got %q, %v; want the value", holder, value, got, ours)
			}
		}
	}
	for _, holder := range []string{"", "web-1/", "#", "a#x#", "a#9#", "a#-1#"} {
		if got, ours := lua.ValueOf(holder + lua.ValueLabel("") + random); !ours || got != holder {
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
