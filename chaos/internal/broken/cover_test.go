package broken_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// coverVariable names the environment variable that asks for the coverage of the default
// exploration, and says of how many plans: "300".
const coverVariable = "REDLOCK_EXPLORE_COVER"

// protocol are the packages whose functions the exploration must reach.
const protocol = "github.com/quorumkit/redlock," + inner + "acquire," + inner + "clock," + inner + "election," + inner + "grant," +
	inner + "membership," + inner + "node," + inner + "observe," + inner + "queue," + inner + "quorum," + inner + "set," + inner + "slots"

const inner = "github.com/quorumkit/redlock/internal/"

// elsewhere are functions that plans do not reach, by what they have in common, and where
// they are tried instead.
var elsewhere = []struct{ what, why string }{
	{`/(check|inspect|inspect_slots|inspect_shared|cluster|cluster_lower|reason|log|unreleased|open|fencing|options)\.go:`, "an operator's view, words, options, and addresses: the root's tests"},
	{`\b(String|Error|Unwrap|Is|LogValue|MarshalJSON|MarshalText|Format|Reason|Outcome)$`, "words"},
	{`/(revocable|revocation|minhold|multilock|observer|events|stats|errors|dispatch)\.go:`, "revocation, minimum holds, observers of events: the root's tests"},
	{`/internal/membership/(lower|lowering|strict|known|record)\.go:`, "operators change a cluster: the root's tests and the searches of membership"},
	{`/internal/(clock/(suspend_|crosscheck)|node/(server_identity|turnstile|parting|errors|refused))`, "the machine's suspend, dialling, and what real servers say: the root's tests on servers"},
}

// byTests are single functions that plans do not reach, each with a test of what it is for.
// The function is the file, from the module's root, and its name.
var byTests = []struct{ function, test, why string }{
	{"acquireall.go DoAll", "TestASetEntersTheHoldsOfItsContext", "it is AcquireAll and Do"},
	{"clock.go wait", "TestDoKeepsTheLockForItsLeastTime", "a minimum hold waits"},
	{"lock.go ValidUntil", "TestALateConfirmationRevivesNothing", "for logs"},
	{"lock.go holdUntil", "TestASetIsHeldForItsMaximumFromWhenItIsComplete", "a bound on a set"},
	{"shared.go Shared", "TestThoseWhoShareHoldTogetherAndExcludeAllOthers", "a getter"},
	{"internal/acquire/attempt.go ended", "TestCloseEndsEverything", "a Locker that is closed"},
	{"internal/acquire/share.go raiseAgain", "TestARaiseThatOtherNamesOutranIsMadeAgain", "two names of one stripe"},
	{"internal/clock/clock.go SuspendBy", "TestASuspendIsCountedAtTheFirstCallAfterIt", "for tests"},
	{"internal/membership/plan.go Stranger", "TestCheckSaysWhatTheJoinerWasRefused", "words"},
	{"internal/membership/plan.go LowerArgs", "TestMaxTTLComesDownWhenTheOldOneHasPassed", "an operator lowers MaxTTL"},
	{"internal/membership/plan.go AmendArgs", "TestMaxTTLIsTheClustersAndNeverFalls", "clients of another MaxTTL"},
	{"internal/membership/reconcile.go Mark", "TestRetireOfANodeThatDoesNotAnswerLeavesItsMarksAndSaysSo", "an operator retires a node"},
	{"internal/membership/tracker.go MaxTTL", "TestAMaxTTLMayHaveAFractionOfAMillisecond", "a getter"},
	{"internal/membership/tracker.go Judge", "TestJoinEndsWithItsContextAndSaysWhoDoesNotVote", "an operator's view"},
	{"internal/membership/tracker.go ReadSince", "TestALeaseOfARaisedMaxTTLIsNotCalledAStep", "clients of another MaxTTL"},
	{"internal/membership/view.go Lists", "TestReplacingANodeKeepsItsOrder", "clients of another list"},
	{"internal/membership/view.go Mixed", "TestAClientWithOtherNamesLocksAndRejoinsNoNode", "clients of another list"},
	{"internal/membership/view.go Strange", "TestAClientWithOtherNamesLocksAndRejoinsNoNode", "clients of another list"},
	{"internal/node/commands.go ExtendArgs", "TestCheckLeavesNothingAndSendsNothingTwice", "an operator's check"},
	{"internal/node/commands.go acquireCall", "TestAForbiddenNameFailsAlone", "a name that a server forbids"},
	{"internal/node/extension.go singly", "TestAForbiddenNameTakesNoOtherLocksRenewal", "a name that a server forbids"},
	{"internal/queue/poll.go Singly", "TestALookIsRefusedForOneNameAlone", "a name that a server forbids"},
	{"internal/queue/poll.go Size", "TestALookIsRefusedForOneNameAlone", "a name that a server forbids"},
	{"internal/node/node.go SubmitProbe", "TestRevokeNeedsAQuorumThatMayVote", "an operator's question"},
	{"internal/node/record_io.go HidesIdentity", "TestCheckRefusesAServerThatHidesItsRunID", "a server that hides who it is"},
	{"internal/node/record_io.go Retire", "TestRetireOfANodeThatDoesNotAnswerLeavesItsMarksAndSaysSo", "an operator retires a node"},
	{"internal/node/sample.go Stepped", "TestTheWaitAfterAStepIsForTheMaxTTLOfNow", "clocks that step"},
	{"internal/node/subscription.go Drop", "TestWhatRunsForAnObserverEndsWithItsLoop", "observers that come and go"},
	{"internal/node/verify.go enroll", "TestJoinIsForProgramsThatEndSoon", "an operator joins"},
	{"internal/node/writes.go RefusesNow", "TestNodesThatRefuseWritesAreSeenEverywhere", "a server that takes no writes"},
	{"internal/observe/look.go readAll", "TestManyNamesAreLookedAtInFewCalls", "many names observed at once"},
	{"internal/queue/listen.go Listen", "TestEachKindOfHoldCanBeAskedFor", "revocation"},
	{"internal/queue/queue.go Waiting", "TestAThousandWaitersCostTheNodesAsMuchAsOne", "for tests"},
	{"internal/queue/share.go Stood", "TestCloseEndsTheWaitToShare", "calls for what was left"},
	{"internal/slots/slots.go Called", "TestTwoSlotsThatAreFreedTogetherGoToTwo", "slots that are freed together"},
}

// lineOfCover is one of go tool cover -func: the place, the function, the share.
var lineOfCover = regexp.MustCompile(`^(\S+:)\s+(\S+)\s+([0-9.]+)%$`)

// What no plan runs, no plan can find wrong.
//
//	make explore-cover PLANS=300
func TestTheExplorationReachesEveryFunctionOfTheProtocol(t *testing.T) {
	text := os.Getenv(coverVariable)
	if text == "" {
		t.Skip(coverVariable + " does not say of how many plans")
	}
	plans, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	never, share := unreached(t, plans)
	t.Logf("%d plans of seeds 0 to %d: %s", plans, plans-1, share)
	for _, name := range never {
		t.Errorf("at 0 %%: %s", name)
	}
}

// unreached are the functions at 0 % after so many plans, but for those that are tried
// elsewhere, and the share of all statements that was reached.
func unreached(t *testing.T, plans int) (never []string, share string) {
	t.Helper()
	dir := t.TempDir()
	binary, profile := filepath.Join(dir, "covered.test"), filepath.Join(dir, "cover.out")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-coverpkg="+protocol, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ordered, err := json.Marshal(order{Step: 1, Plans: plans, AtMost: time.Hour, Loads: true})
	if err != nil {
		t.Fatal(err)
	}
	hunt := exec.CommandContext(t.Context(), binary, "-test.run=^TestHunt$", "-test.timeout=0", "-test.coverprofile="+profile)
	hunt.Env = append(os.Environ(), orderVariable+"="+string(ordered))
	if out, err := hunt.CombinedOutput(); err != nil || strings.Contains(string(out), `"First":"`) && !strings.Contains(string(out), `"First":""`) {
		t.Fatalf("explore: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "go", "tool", "cover", "-func="+profile).CombinedOutput()
	if err != nil {
		t.Fatalf("cover: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		m := lineOfCover.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case m == nil:
		case m[1] == "total:":
			share = m[3] + " % of the statements"
		case m[3] == "0.0" && !triedElsewhere(m[1], m[2]):
			never = append(never, fmt.Sprintf("%s %s", m[1], m[2]))
		}
	}
	return never, share
}

func triedElsewhere(place, function string) bool {
	for _, e := range elsewhere {
		if regexp.MustCompile(e.what).MatchString(place+function) || regexp.MustCompile(e.what).MatchString(function) {
			return true
		}
	}
	file, _, _ := strings.Cut(strings.TrimPrefix(place, strings.TrimSuffix(inner, "internal/")), ":")
	return slices.ContainsFunc(byTests, func(of struct{ function, test, why string }) bool { return of.function == file+" "+function })
}

// Each function of the list is there, and so is its test.
func TestWhatPlansDoNotReachIsTriedByATest(t *testing.T) {
	t.Parallel()
	for _, of := range byTests {
		file, function, _ := strings.Cut(of.function, " ")
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+function+`\(`).Match(text) {
			t.Errorf("%s: no such function: %v", of.function, err)
		}
		w := way{name: of.function, by: ". " + of.test}
		if _, _, err := w.test(); err != nil {
			t.Error(err)
		}
	}
}
