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

// ScenarioKits are the names that [ScenarioKit] knows.
func ScenarioKits() []string {
	return []string{trace.NameRedlock, trace.NameWithoutMembership, trace.NameWithoutClockWatch, trace.NameWithoutProtections, trace.NameRenewing, trace.NameTextbook, trace.NameSingle}
}

// ScenarioKit is the kit of that name with the lease of the scenarios. Redlock's
// does not renew, but for [NameRenewing]: scenarios extend where they mean to.
func ScenarioKit(name string) (Kit, error) {
	renewed := []redlock.Option{redlock.WithTTL(ScenarioLease), redlock.WithMaxTTL(ScenarioLease)}
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
		return TextbookRedlock(), nil
	case trace.NameSingle:
		return SingleMaster(), nil
	}
	return Kit{}, fmt.Errorf("chaos: there is no contender %q; there are %s", name, strings.Join(ScenarioKits(), ", "))
}
