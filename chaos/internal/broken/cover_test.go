package broken_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/testkit"
)

// coverVariable names the environment variable that says of how many plans of the default
// exploration the coverage is taken: "300". Without it the deep tier takes 90.
const coverVariable = "REDLOCK_EXPLORE_COVER"

// protocol are the packages whose functions the exploration must reach.
const protocol = "github.com/quorumkit/redlock," + inner + "acquire," + inner + "clock," + inner + "election," + inner + "grant," +
	inner + "hold," + inner + "membership," + inner + "node," + inner + "observe," + inner + "queue," + inner + "quorum," + inner + "round," + inner + "set," + inner + "slots"

const inner = "github.com/quorumkit/redlock/internal/"

// elsewhere are functions that plans do not reach, by what they have in common, and where
// they are tried instead.
var elsewhere = []struct{ what, why string }{
	{`/(check|inspect|cluster|open|fencing|options)\.go:|/redlock/clock\.go:`, "an operator's view, words, options, and addresses: the root's tests"},
	{`\b(String|Error|Unwrap|Is|LogValue|MarshalJSON|MarshalText|Format|Reason|Outcome)$`, "words"},
	{`/(revocation|requests|multilock|observer|events|stats|errors|dispatch)\.go:`, "revocation, observers of events: the root's tests"},
	{`/internal/membership/(changing|record)\.go:`, "operators change a cluster: the tests and searches of membership"},
	{`/internal/(clock/(suspend_|crosscheck)|node/(dial|errors|refused))`, "the machine's suspend, dialling, and what real servers say: tests on servers"},
}

// byTests are single functions that plans do not reach, each with a test of what it is for.
// The function is the file, from the module's root, and its name; a test is of the root where
// no package is named.
var byTests = []struct{ function, test, why string }{
	{"acquireall.go DoAll", "TestASetEndsWithTheFirstNameThatIsLost", "it is AcquireAll and Do"},
	{"internal/hold/handle.go Open", "TestReentryKnowsBothKinds", "an exclusive hold inside a shared one"},
	{"acquireall.go yield", "TestASetThatWaitsGivesBackWhatIsAskedFor", "a set that is asked for"},
	{"redlock.go TryDo", "TestTryDoRunsAtOnceOrNotAtAll", "one attempt of Do"},
	{"internal/node/extension.go expire", "TestAnExtensionWhoseContextEndsBlamesNoNode", "a call whose context ends"},
	{"internal/node/pending.go onward", "./internal/queue TestALockThatIsHandedOnStaysOnASlowNode", "a node that is behind by several hand-overs"},
	{"internal/hold/handle.go Attach", "TestASetEntersTheHoldsOfItsContext", "a set of holds that are entered again"},
	{"internal/hold/handle.go Detach", "TestASetEntersTheHoldsOfItsContext", "the same"},
	{"internal/hold/hold.go EndAt", "TestASetIsHeldForItsMaximumFromWhenItIsComplete", "a bound on a set"},
	{"locker.go giveBackGrant", "./internal/acquire TestAGrantToAnAttemptThatIsOverIsGivenBack", "a node that was away grants to an attempt that is over: in some plays of the 90 plans, in others not"},
	{"shared.go Shared", "TestThoseWhoShareHoldTogetherAndExcludeAllOthers", "a getter"},
	{"shared.go WithMinHold", "TestDoKeepsTheLockForItsLeastTime", "an option"},
	{"internal/acquire/releases.go GiveBackGrant", "./internal/acquire TestAGrantToAnAttemptThatIsOverIsGivenBack", "the same"},
	{"internal/acquire/attempt.go ended", "TestCloseEndsEverything", "a Locker that is closed"},
	{"internal/acquire/attempt.go raiseAgain", "./internal/queue TestARaiseThatOtherNamesOutranIsMadeAgain", "two names of one stripe"},
	{"internal/clock/clock.go SuspendBy", "TestASuspendIsCountedAtTheFirstCallAfterIt", "for tests"},
	{"internal/membership/stragglers.go When", "./internal/membership TestTheNextChangeWaitsForTheNamesOfClientsOfTheListBefore", "words for an operator"},
	{"internal/membership/stragglers.go Named", "./internal/membership TestTheNextChangeWaitsForTheNamesOfClientsOfTheListBefore", "the same"},
	{"internal/membership/stragglers.go Again", "./internal/membership TestPendingSaysWhichChangeHasBegun", "the same"},
	{"internal/membership/tracker.go Judge", "./internal/doctor TestCheckProvesMembersWithALock", "an operator's check"},
	{"internal/membership/tracker.go ReadSince", "./internal/membership TestALookThatComesLateReplacesNoNewerOne", "revocation"},
	{"internal/membership/claims.go Beside", "./internal/doctor TestEachExamIsJudgedAndNoOther", "an operator's check"},
	{"internal/membership/lists.go within", "./internal/membership TestAClientGoesByTheNewestListThatItHas", "what an old list founded"},
	{"internal/membership/lists.go GoingBy", "./internal/doctor TestEachExamIsJudgedAndNoOther", "the same"},
	{"change.go foretell", "./internal/membership TestOneCallChangesNodesMaxTTLAndStrictStepByStep", "a dry run"},
	{"internal/membership/change.go Foretold", "./internal/membership TestOneCallChangesNodesMaxTTLAndStrictStepByStep", "a dry run"},
	{"internal/membership/view.go count", "TestAnotherNumberOfNodesIsNamedWithItsRemedy", "clients of another list"},
	{"internal/node/commands.go ExtendArgs", "./internal/doctor TestCheckLeavesNothingAndSendsNothingTwice", "an operator's check"},
	{"internal/node/commands.go acquireCall", "./internal/node TestAForbiddenNameFailsAlone", "a name that a server forbids"},
	{"internal/node/batch.go singly", "TestAForbiddenNameTakesNoOtherLocksRenewal", "a name that a server forbids"},
	{"internal/queue/poll.go Singly", "./internal/node TestALookIsRefusedForOneNameAlone", "a name that a server forbids"},
	{"internal/queue/poll.go Size", "./internal/node TestALookIsRefusedForOneNameAlone", "a name that a server forbids"},
	{"internal/node/node.go SubmitProbe", "TestOpenSaysThatANodeWasNotReached", "Open asks whether nodes answer"},
	{"internal/node/record.go HidesIdentity", "./internal/doctor TestCheckRefusesAServerThatHidesItsRunID", "a server that hides who it is"},
	{"internal/node/node.go Stepped", "./internal/node TestTheWaitAfterAStepIsForTheMaxTTLOfNow", "clocks that step"},
	{"internal/node/subscription.go Drop", "TestANameThatNobodyObservesAnyMoreIsNotFollowed", "observers that come and go"},
	{"internal/node/record.go enroll", "TestTheSameServerListedTwiceMakesTwoHoldersWithoutMembership", "a client without membership"},
	{"internal/node/connection.go judge", "TestAWrappedClientIsRefusedByWhatItsConnectionSays", "a wrapped client"},
	{"internal/node/connection.go judgeConnection", "TestAWrappedClientIsRefusedByWhatItsConnectionSays", "a wrapped client"},
	{"internal/node/connection.go watchOther", "TestAWrappedClientIsRefusedByWhatItsConnectionSays", "a wrapped client"},
	{"internal/node/pending.go apart", "./internal/node TestACallRefusedForOneNameGoesInParts", "a call that is refused for one of its names"},
	{"internal/node/record.go Misdialled", "./internal/doctor TestCheckFindsEachFaultAndNoOther", "a node that speaks TLS, or none"},
	{"internal/node/refused.go RefusesNow", "TestNodesThatRefuseWritesAreSeenEverywhere", "a server that takes no writes"},
	{"internal/observe/look.go readAll", "TestSharedHoldsLeadNothing", "names observed that have data of another type"},
	{"internal/queue/queue.go Listen", "TestEachKindOfHoldCanBeAskedFor", "revocation"},
	{"internal/round/vouchers.go GoOver", "./internal/node TestALockGoesOverOnceAQuorumOfTheNewerListConfirmsIt", "an answer behind the verdict completes the quorum of the newer list"},
	{"internal/queue/kinds.go Stood", "./internal/queue TestOneWhoseLeaveWasLostHoldsNobodyUpForLong", "calls for what was left"},
}

// lineOfCover is one of go tool cover -func: the place, the function, the share.
var lineOfCover = regexp.MustCompile(`^(\S+:)\s+(\S+)\s+([0-9.]+)%$`)

// What no plan runs, no plan can find wrong.
//
//	make explore-cover PLANS=300
func TestTheExplorationReachesEveryFunctionOfTheProtocol(t *testing.T) {
	text := os.Getenv(coverVariable)
	if text == "" {
		testkit.NeedDeep(t)
		text = "90"
	}
	plans, err := strconv.Atoi(text)
	testkit.Must(t, err)
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
	testkit.Must(t, err)
	hunt := exec.CommandContext(t.Context(), binary, "-test.run=^TestHunt$", "-test.timeout=0", "-test.coverprofile="+profile)
	hunt.Env = append(os.Environ(), orderVariable+"="+string(ordered))
	if out, err := hunt.CombinedOutput(); err != nil || strings.Contains(string(out), `"First":"`) && !strings.Contains(string(out), `"First":""`) {
		t.Fatalf("explore: %v\n%s", err, out)
	}
	all, share := covered(t, profile)
	for _, f := range all {
		if f.share == "0.0" && !triedElsewhere(f.place, f.name) {
			never = append(never, f.place+" "+f.name)
		}
	}
	return never, share + " % of the statements"
}

// reached is a function, where it is, and the share of its statements that ran, in percent.
type reached struct{ place, name, share string }

// covered are the functions of a profile, and the share of all statements that ran.
func covered(t *testing.T, profile string) (all []reached, share string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "cover", "-func="+profile).CombinedOutput()
	if err != nil {
		t.Fatalf("cover: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		switch m := lineOfCover.FindStringSubmatch(strings.TrimSpace(line)); {
		case m == nil:
		case m[1] == "total:":
			share = m[3]
		default:
			all = append(all, reached{place: m[1], name: m[2], share: m[3]})
		}
	}
	return all, share
}

func triedElsewhere(place, function string) bool {
	for _, e := range elsewhere {
		if regexp.MustCompile(e.what).MatchString(place+function) || regexp.MustCompile(e.what).MatchString(function) {
			return true
		}
	}
	return slices.ContainsFunc(byTests, func(of struct{ function, test, why string }) bool { return of.function == listed(place, function) })
}

// listed is how byTests has a function.
func listed(place, function string) string {
	file, _, _ := strings.Cut(strings.TrimPrefix(place, strings.TrimSuffix(inner, "internal/")), ":")
	return file + " " + function
}

// testOf is the package and the name of a test of byTests.
func testOf(test string) (pkg, name string) {
	if pkg, name, ok := strings.Cut(test, " "); ok {
		return pkg, name
	}
	return ".", test
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
		pkg, name := testOf(of.test)
		w := way{name: of.function, by: pkg + " " + name}
		if _, _, err := w.test(); err != nil {
			t.Error(err)
		}
	}
}

// Each function of the list is run by its test: each test alone, over a binary of all.
//
//	make explore-cover
func TestWhatPlansDoNotReachIsRunByItsTest(t *testing.T) {
	if os.Getenv(coverVariable) == "" {
		testkit.NeedDeep(t)
	}
	dir := t.TempDir()
	binaries, ran := map[string]string{}, map[string]map[string]bool{}
	for _, of := range byTests {
		pkg, name := testOf(of.test)
		if binaries[pkg] == "" {
			binaries[pkg] = filepath.Join(dir, filepath.Base(pkg)+".test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-coverpkg="+protocol, "-o", binaries[pkg], pkg)
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, out)
			}
		}
		if ran[name] == nil {
			ran[name] = ranBy(t, binaries[pkg], pkg, name, filepath.Join(dir, name))
		}
		if !ran[name][of.function] {
			t.Errorf("%s is not run by %s", of.function, of.test)
		}
	}
}

// ranBy are the functions that a test of a package runs, as byTests has them.
func ranBy(t *testing.T, binary, pkg, test, profile string) map[string]bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run=^"+test+"$", "-test.v", "-test.coverprofile="+profile)
	cmd.Dir = filepath.Join(root, pkg)
	cmd.Env = append(os.Environ(), "REDLOCK_TEST=full")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+test+" ") {
		t.Fatalf("%s: %v\n%s", test, err, out)
	}
	ran := map[string]bool{}
	all, _ := covered(t, profile)
	for _, f := range all {
		if f.share != "0.0" {
			ran[listed(f.place, f.name)] = true
		}
	}
	return ran
}
