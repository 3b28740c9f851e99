package chaos_test

import (
	"slices"
	"testing"
	"time"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/testkit"
)

// Plans that explorations found and shrank: no rule may be broken in any of them.
func TestPlansThatOnceFailedKeepAllRules(t *testing.T) {
	testkit.Unraced(t)
	for _, c := range []struct{ was, plan string }{
		{
			was: "a release that a restarted node refused, for want of the script, was taken for one that it had executed",
			plan: `{"seed":29,"nodes":7,"clients":4,"names":8,"lease":3000000000,"for":4994900688,"maxTTL":4000000000,
				"faults":[{"kind":"crash","at":1994900688,"for":2326853,"node":3}],"linger":50}`,
		},
		{
			was: "an acquire without a reply came after a re-seed of the same lock that had one, and after the release, which left no tombstone",
			plan: `{"seed":6,"nodes":4,"clients":6,"names":7,"lease":3000000000,"for":6736729729,"maxTTL":4000000000,"faults":[
				{"kind":"stall","at":1668972376,"for":108612490,"node":0},{"kind":"half-open connections","at":1704411043,"node":3},
				{"kind":"stall","at":2449974447,"for":686090255,"node":1},{"kind":"reordering","at":2689693085,"for":652086001,"node":3,"delay":973017481},
				{"kind":"half-open connections","at":2999169470,"node":-1,"client":"client-2"},
				{"kind":"reordering","at":3355487721,"for":766907307,"node":1,"delay":587916346},
				{"kind":"stall","at":3736729729,"for":345338851,"node":0}],"linger":50,"retry":43750000}`,
		},
		{
			was: "a goroutine that barged got the lock when its process's turn was over, and handed it to the others there as if a new turn had begun",
			plan: `{"seed":610,"nodes":5,"clients":4,"names":5,"lease":3000000000,"for":30000000000,"maxTTL":4000000000,"faults":[
				{"kind":"slow","at":7082146287,"for":294663344,"node":-1,"delay":30562345},
				{"kind":"pause","at":7162707164,"for":141768368,"node":4,"client":"client-2","where":"release"},
				{"kind":"slow","at":10493794459,"for":268675572,"node":-1,"delay":51332664}],
				"linger":50,"retry":43750000,"waits":true,"threads":6,"stays":4,"barges":6,"bounds":4,"reenters":4,"reopens":2}`,
		},
		{
			was: "a library that was opened again found half-open connections of its client's pool, beside a stalled node, and its attempt was taken for a slow one",
			plan: `{"seed":423,"nodes":5,"clients":8,"names":3,"lease":3000000000,"for":30000000000,"maxTTL":4000000000,"faults":[
				{"kind":"half-open connections","at":21724567121,"node":4},{"kind":"half-open connections","at":24892302809,"node":2},
				{"kind":"stall","at":26093284002,"for":1154948524,"node":1}],
				"linger":2,"threads":1,"shares":5,"sets":4,"tries":4,"does":3,"bounds":4,"reopens":2,"turns":1}`,
		},
		{
			was: "three nodes were stalled for longer than a release is repeated, then took earlier acquires, and were taken for free",
			plan: `{"seed":688,"nodes":5,"clients":2,"names":2,"lease":3000000000,"for":30000000000,"maxTTL":4000000000,"faults":[
				{"kind":"stall","at":9934133561,"for":2755943639,"node":2},{"kind":"stall","at":12311574206,"for":2181788362,"node":4},
				{"kind":"stall","at":12522904557,"for":3043498342,"node":2},{"kind":"stall","at":13201781985,"for":4184925012,"node":0},
				{"kind":"stall","at":13594494837,"for":3839277743,"node":1}],
				"linger":2,"retry":43750000,"threads":1,"renews":true,"sets":4,"stays":4,"bursts":40,"does":3}`,
		},
		{
			was: "a node that was away for 5 s had an attempt in line that was over, and its next release granted the name to that one",
			plan: `{"seed":1150,"nodes":5,"clients":6,"names":3,"lease":3000000000,"for":13854603288,"maxTTL":4000000000,"faults":[
				{"kind":"cut requests","at":3302801197,"for":2747158960,"node":-1,"client":"client-1"},
				{"kind":"cut requests","at":3427301644,"for":5320788694,"node":2}],
				"linger":2,"retry":43750000,"waits":true,"threads":3,"renews":true,"shares":2,"sets":2,"leads":3,"stays":10,"bursts":40,
				"does":3,"reenters":4,"turns":2}`,
		},
		{
			was: "a process that asked for a place was told of as at place 0 to nodes that gave no vote, and passed all who waited there",
			plan: `{"seed":2008113,"nodes":5,"clients":12,"names":6,"lease":3000000000,"for":30000000000,"maxTTL":4000000000,"faults":[
				{"kind":"reset","at":1229109398,"node":4},{"kind":"failover to a replica that lags","at":2206568536,"for":428139083,"node":4},
				{"kind":"failover to a replica that lags","at":2861452281,"for":135368285,"node":2},{"kind":"refused connections","at":2924047476,"for":382511013,"node":0,"client":"client-2"},
				{"kind":"crash and forget","at":4526659981,"for":485401937,"node":0},{"kind":"failover to a replica that lags","at":4950979514,"for":72669670,"node":3},
				{"kind":"pause","at":5727032110,"for":5544056,"node":1,"client":"client-3","where":"extend"},{"kind":"pause","at":6735925576,"for":438274835,"node":4,"client":"client-5","where":"held"},
				{"kind":"reset","at":7590967780,"node":3},{"kind":"pause","at":8128653542,"for":397507326,"node":4,"client":"client-4","where":"release"},{"kind":"reset","at":9127872321,"node":0},
				{"kind":"pause","at":10445327677,"for":335546447,"node":3,"client":"client-6","where":"release"},{"kind":"failover to a replica that lags","at":11078268242,"for":55808453,"node":4},
				{"kind":"refused connections","at":12412205708,"for":383650203,"node":-1,"client":"client-10"},{"kind":"pause","at":13461606403,"for":263624732,"node":0,"client":"client-7","where":"held"},
				{"kind":"reset","at":14385330412,"node":3,"client":"client-0"},{"kind":"crash and forget","at":15185908108,"for":216772916,"node":1},
				{"kind":"reset","at":16302021663,"node":0,"client":"client-5"},{"kind":"refused connections","at":17284476033,"for":83310923,"node":2},
				{"kind":"failover to a replica that lags","at":17893229757,"for":249335507,"node":0},{"kind":"refused connections","at":19200551873,"for":507133195,"node":-1,"client":"client-3"},
				{"kind":"refused connections","at":19287231083,"for":414992486,"node":4},{"kind":"refused connections","at":19987827474,"for":371376908,"node":3},
				{"kind":"crash and forget","at":20954894747,"for":128239664,"node":4},{"kind":"reset","at":22328993957,"node":3},{"kind":"crash and forget","at":23895528989,"for":241962068,"node":2},
				{"kind":"refused connections","at":25174847103,"for":498332273,"node":-1,"client":"client-0"},{"kind":"crash and forget","at":25948320937,"for":190256217,"node":4},
				{"kind":"reset","at":27583603126,"node":-1,"client":"client-11"},{"kind":"pause","at":28183770800,"for":169035227,"node":2,"client":"client-8","where":"extend"},
				{"kind":"pause","at":28369307444,"for":330651414,"node":2,"client":"client-5","where":"held"},{"kind":"pause","at":29331133684,"for":513065691,"node":4,"client":"client-5","where":"write"}],
				"linger":10,"waits":true,"threads":2,"renews":true,"varied":2,"tries":4,"barges":6,"bounds":4,"reenters":4,"reopens":2,"turns":1}`,
		},
		{
			was: "an attempt brought the lock, which was handed on; a node that had it put back had the attempt in line still, and a later release granted the name to it",
			plan: `{"seed":42024364,"nodes":5,"clients":6,"names":7,"lease":3000000000,"for":30000000000,"maxTTL":4000000000,"faults":[
				{"kind":"failover to a replica that lags","at":3635650179,"for":3135606899,"node":4},{"kind":"slow","at":6006592590,"for":5646227363,"node":-1,"client":"client-1","delay":293611711},
				{"kind":"failover to a replica that lags","at":10628091244,"for":3265981668,"node":1},{"kind":"slow","at":15148917892,"for":6305216961,"node":-1,"client":"client-0","delay":125415953},
				{"kind":"FLUSHALL","at":20113721284,"node":3},{"kind":"pause","at":22212586732,"for":6239735481,"node":2,"client":"client-4","where":"extend"},{"kind":"FLUSHALL","at":23577443223,"node":1},
				{"kind":"pause","at":25219938381,"for":7069810969,"node":0,"client":"client-3","where":"write"},{"kind":"cut","at":25603264376,"for":4358240514,"node":2,"client":"client-0"},
				{"kind":"cut","at":25603264376,"for":4358240514,"node":3,"client":"client-0"},{"kind":"pause","at":26690735155,"for":5328516931,"node":0,"client":"client-3","where":"write"},
				{"kind":"clock step","at":27823414347,"for":2138090543,"node":1,"delay":2413004610}],
				"linger":2,"retry":43750000,"waits":true,"threads":2,"renews":true,"leads":3,"stays":4}`,
		},
		{
			was: "libraries were opened again before a node that had forgotten could be taken in, and then two more forgot",
			plan: `{"seed":61000059,"nodes":5,"clients":2,"names":6,"lease":3000000000,"for":30000000000,"maxTTL":4000000000,"faults":[
				{"kind":"crash and come back with old data","at":3239745517,"for":12463505,"node":1},{"kind":"crash and come back with old data","at":10352021471,"for":197256797,"node":3},
				{"kind":"crash and come back with old data","at":11004197107,"for":259857305,"node":2},{"kind":"crash and come back with old data","at":13225981369,"for":28845537,"node":3},
				{"kind":"stall","at":15515991455,"for":27967959,"node":4},{"kind":"stall","at":16271688210,"for":288294025,"node":4},{"kind":"stall","at":16640988988,"for":61792573,"node":2},
				{"kind":"stall","at":19796679826,"for":28994306,"node":0},{"kind":"crash and come back with old data","at":22929692242,"for":31530113,"node":4}],
				"linger":50,"retry":43750000,"threads":2,"stays":10,"tries":4,"does":3,"bounds":4,"reopens":2}`,
		},
	} {
		p, err := chaos.ParsePlan(c.plan)
		testkit.Must(t, err)
		if v := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Verdict; len(v.Violations) > 0 || v.Won == 0 {
			t.Errorf("%s: got %v", c.was, v)
		}
	}
}

// A clock that was right again after 13 ms, as no holder had looked at it: it had ended the
// lease of one whose lock needed that node, and another client got the name. The watch sees no
// such step, which docs/SAFETY.md says. One that lasts until it is seen breaks nothing, and
// so long are those that are drawn.
func TestAStepOfAClockThatNobodySawMayShowTwoHoldersAndNoMore(t *testing.T) {
	testkit.Unraced(t)
	p, err := chaos.ParsePlan(`{"seed":443,"nodes":3,"clients":20,"names":3,"lease":3000000000,"for":10301413456,"maxTTL":4000000000,"faults":[
		{"kind":"cut","at":4705362894,"for":2609148404,"node":2,"client":"client-7"},
		{"kind":"clock step","at":7301413456,"for":13097842,"node":1,"delay":7937212486}],
		"linger":50,"threads":1,"varied":2,"stays":10,"bursts":40,"turns":2}`)
	testkit.Must(t, err)
	v := chaos.PlayVirtual(t, p, p.Redlock("redlock")).Verdict
	if slices.ContainsFunc(v.Broken(), func(r chaos.Rule) bool { return r != chaos.TwoHolders }) {
		t.Errorf("a step that nobody saw: got %v; want no rule broken but that of two holders", v)
	}
	for i := range p.Faults {
		p.Faults[i].For += time.Second
	}
	if v = chaos.PlayVirtual(t, p, p.Redlock("redlock")).Verdict; len(v.Violations) > 0 || v.Won == 0 {
		t.Errorf("a step that lasted for a second more: got %v; want no rule broken", v)
	}
	p = chaos.Swarm(443, 30*time.Second) // where it was found
	chaos.Explore(t, p, p.Redlock("redlock"))
}

// Four reorderings of one link were at work at once, and made a message late by seven seconds:
// their delays add up. What it left was taken for an orphan.
func TestDelaysOfOneLinkAddUp(t *testing.T) {
	testkit.Unraced(t)
	p := chaos.Swarm(32044078, 30*time.Second)
	chaos.Explore(t, p, p.Redlock("redlock"))
}

// A node that had a set's lock put back had its attempt in line still. 60 ms after its
// release another's granted the name to it.
func TestAGrantToOneThatHasJustReleasedIsGivenBack(t *testing.T) {
	testkit.Unraced(t)
	p := chaos.Swarm(72012048, 30*time.Second)
	chaos.Explore(t, p, p.Redlock("redlock"))
}

// An entry that is a process's id alone stayed where a hand met another's key, and its
// process had a turn too many. A rollback that a node was slow to take put the next
// attempt in line again, after that one had been released.
func TestGrantsKeepTheLine(t *testing.T) {
	testkit.Unraced(t)
	for _, c := range []struct {
		seed   uint64
		kinds  []chaos.Break
		renews bool
	}{{2019, []chaos.Break{chaos.Slow, chaos.LoseReplies, chaos.Jitter}, false}, {37, nil, true}} {
		p := chaos.Swarm(c.seed, 30*time.Second, c.kinds...)
		p.Waits, p.Renews, p.Shares, p.Sets, p.Slots, p.Leads = true, c.renews, 0, 0, 0, 0 // as drawn then
		chaos.Explore(t, p, p.Redlock("redlock"))
	}
}

// Close had to wait for go-redis, which connected a subscription again by itself,
// with the mutex held that Close needs: behind slow links, for as long as the
// greeting takes, and in a bubble for ever.
func TestClosingEndsASubscriptionThatConnects(t *testing.T) {
	p := chaos.Swarm(74, 30*time.Second, chaos.Slow)
	p.Waits, p.Shares, p.Sets, p.Slots, p.Leads = true, 0, 0, 0, 0 // as drawn then
	chaos.Explore(t, p, p.Redlock("redlock"))
}
