package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/trace"
)

// guarded is the claim of each of them that, with a guard, it holds.
func guarded(contenders ...string) []trace.Showing {
	claims := make([]trace.Showing, len(contenders))
	for i, name := range contenders {
		claims[i] = trace.Showing{Contender: name, Guarded: true}
	}
	return claims
}

// ScenarioKit is the kit of that name with the lease of the scenarios, three seconds:
// "redlock", "redlock without membership", "redlock without clock watch", "redlock without
// protections", "redlock, renewing", "textbook Redlock" or "single master". Redlock's does not
// renew, but for "redlock, renewing": scenarios extend where they mean to. It fails for another
// name.
func ScenarioKit(name string) (Kit, error) {
	renewed := []redlock.Option{redlock.WithTTL(scenarioLease), redlock.WithMaxTTL(scenarioLease)}
	lease := append(slices.Clip(renewed), redlock.WithFixedLease())
	switch name {
	case trace.NameRedlock:
		return Redlock(name, lease...), nil
	case trace.NameWithoutMembership:
		return Redlock(name, append(lease, redlock.WithoutMembership())...), nil
	case trace.NameWithoutClockWatch:
		return Redlock(name, append(lease, redlock.WithoutClockWatch())...), nil
	case trace.NameWithoutProtections:
		return Redlock(name, append(lease, redlock.WithoutMembership(), redlock.WithoutClockWatch())...), nil
	case trace.NameRenewing:
		return Redlock(name, renewed...), nil
	case trace.NameTextbook:
		return textbookRedlock(), nil
	case trace.NameSingle:
		return singleMaster(), nil
	}
	return Kit{}, fmt.Errorf("chaos: there is no contender %q; there are %s", name, strings.Join(trace.Contenders(), ", "))
}
