package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// played is a line of play --json.
type played struct {
	Scenario  string
	Contender string
	Guarded   bool
	AsClaimed *bool `json:"as_claimed"`
	Broken    []string
	Refused   int
}

func playedLines(t *testing.T, r result) []played {
	t.Helper()
	var all []played
	for line := range strings.Lines(r.out) {
		var p played
		decode(t, line, &p)
		all = append(all, p)
	}
	return all
}

func TestLabListsTheScenarios(t *testing.T) {
	t.Parallel()
	list := run(t, "list")
	list.want(t, 0, "redlock-lab help play")
	lines := strings.Count(run(t, "list", "--json").out, "\n")
	if want := len(chaos.Scenarios()); lines != want {
		t.Errorf("got %d scenarios; want %d", lines, want)
	}
	told := toldOf(list.out)
	for _, s := range chaos.Scenarios() {
		if text := told[s.Name]; !strings.HasPrefix(text, s.Claim+" Take away: "+s.Lesson+" ") {
			t.Errorf("%s: got %q", s.Name, text)
		}
	}
	page, err := os.ReadFile("../../docs/CHAOS.md")
	must(t, err)
	_, sample, _ := strings.Cut(string(page), "| keep all rules | break |\n|---|---|---|---|---|\n")
	sample, _, _ = strings.Cut(sample, "\n\n")
	for row := range strings.SplitSeq(sample, "\n") {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 5 {
			t.Fatalf("docs/CHAOS.md: got the row %q; want five cells", row)
		}
		want := cells[1]
		for i, label := range []string{"Take away: ", "Keep all rules: ", "Break: "} {
			if cells[2+i] != "nobody" {
				want += " " + label + cells[2+i]
			}
		}
		if got := told[cells[0]]; got != want {
			t.Errorf("docs/CHAOS.md: got the row %q; lab says %q", want, got)
		}
	}
}

// toldOf is what the list says of each scenario, its lines joined.
func toldOf(list string) map[string]string {
	told, name := map[string]string{}, ""
	for line := range strings.Lines(list) {
		if text, of := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    "); !of {
			name = text
		} else {
			told[name] = strings.TrimSpace(told[name] + " " + text)
		}
	}
	return told
}

// The help of lab is the user's: package testing, which makes virtual time, has
// flags and words of its own.
func TestLabHidesHowTimeIsMade(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"help", "play"}, {"play", "gc-pause"}, {"play", "--nonsense"}} {
		if r := run(t, args...); strings.Contains(r.out+r.errs, "test.") || strings.Contains(r.out+r.errs, "PASS") {
			t.Errorf("%q: got package testing's words: %s%s", args, r.out, r.errs)
		}
	}
}

func TestLabPlaysContendersSideBySide(t *testing.T) {
	t.Parallel()
	r := run(t, "play", "gc-pause")
	r.want(t, 0, "CONTENDER", "keeps every rule", "stale write", "single master", "as claimed", "Take away: ")
	if strings.Contains(r.out, "NOT as claimed") {
		t.Errorf("got %s", r.out)
	}
	guards := []string{}
	for line := range strings.Lines(r.out) {
		for _, name := range []string{trace.NameRedlock, trace.NameTextbook, trace.NameSingle} {
			if rest, of := strings.CutPrefix(line, name+" "); of {
				guards = append(guards, strings.Fields(rest)[0])
			}
		}
	}
	if got := strings.Join(guards, " "); got != "on off - -" {
		t.Errorf("got the guards %s; want on and off for redlock, and none for locks without tokens", got)
	}
	all := playedLines(t, run(t, "play", "gc-pause", "--json"))
	if len(all) < 4 || all[0].Contender != trace.NameRedlock || all[0].Refused != 1 || all[0].AsClaimed == nil || !*all[0].AsClaimed {
		t.Errorf("got %+v; want four contenders, redlock first, as claimed", all)
	}
}

func TestLabPlaysWhoIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args    string
		want    []string
		guarded bool
		broken  string
	}{
		{"amnesia-majority --protections off", []string{trace.NameWithoutProtections}, true, "two holders"},
		{"amnesia-majority --protections on", []string{trace.NameRedlock}, true, ""},
		{"amnesia-majority --protections clock-watch", []string{trace.NameWithoutMembership}, true, "two holders"},
		{"amnesia-majority --contender textbook", []string{trace.NameTextbook}, true, "two holders"},
		{"gc-pause --contender redlock,single --guard=false", []string{trace.NameRedlock, trace.NameSingle}, false, "stale write"},
		{"gc-pause --contender redlock --guard", []string{trace.NameRedlock}, true, ""},
	} {
		all := playedLines(t, run(t, append(append([]string{"play"}, strings.Fields(c.args)...), "--json")...))
		if len(all) != len(c.want) {
			t.Errorf("%s: got %+v; want %q", c.args, all, c.want)
			continue
		}
		for i, p := range all {
			broken := strings.Join(p.Broken, ",")
			if p.Contender != c.want[i] || p.Guarded != c.guarded || !strings.Contains(broken, c.broken) || (broken == "") != (c.broken == "") {
				t.Errorf("%s: got %+v; want %q, guarded %t, breaking %q", c.args, p, c.want[i], c.guarded, c.broken)
			}
		}
	}
}

// One seed is one run, no matter what the machine does.
func TestLabRepeatsARunFromItsSeed(t *testing.T) {
	t.Parallel()
	trace := func(name, seed string) string {
		file := filepath.Join(t.TempDir(), name)
		run(t, "play", "partition-holder", "--seed", seed, "--trace", file).want(t, 0)
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		return string(text)
	}
	if trace("a", "7") != trace("b", "7") {
		t.Error("two runs of one seed differ")
	}
	if trace("a", "7") == trace("b", "8") {
		t.Error("two seeds give one run")
	}
}

func TestLabDrawsATraceAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trace, first, again, svg := filepath.Join(dir, "t.jsonl"), filepath.Join(dir, "1.html"), filepath.Join(dir, "2.html"), filepath.Join(dir, "p.svg")
	played := run(t, "play", "gc-pause", "--html", first, "--trace", trace)
	played.want(t, 0)
	rendered := run(t, "render", trace, "--html", again, "--svg", svg)
	if rendered.want(t, 0); rendered.out != played.out {
		t.Errorf("got\n%s\nwant what lab said:\n%s", rendered.out, played.out)
	}
	a, err := os.ReadFile(first)
	testkit.Must(t, err)
	b, err := os.ReadFile(again)
	if err != nil || string(a) != string(b) || !strings.Contains(string(a), "gc-pause") {
		t.Errorf("got another page than before, %v", err)
	}
	if text, err := os.ReadFile(svg); err != nil || !strings.HasPrefix(string(text), "<svg ") {
		t.Errorf("got no picture: %v", err)
	}
	in, err := os.Open(trace)
	testkit.Must(t, err)
	defer in.Close()
	piped := prepare(t, "render", "-", "--html", "-")
	piped.Stdin = in
	if r := finish(t, piped); r.code != 0 || !strings.HasPrefix(r.out, "<!DOCTYPE html>") || strings.Contains(r.out, "CONTENDER") {
		t.Errorf("got exit status %d and %.60q; want the page on stdout, and nothing else", r.code, r.out)
	}
}

// A trace whose run was not as its head claims.
func TestLabSaysWhatIsNotAsClaimed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "t.jsonl")
	const head = `{"at":0,"kind":"began","about":{"scenario":"s","contender":"c","guarded":true,"claimed":{"Contender":"c","Guarded":true,"Breaks":["two holders"]}}}`
	testkit.Must(t, os.WriteFile(file, []byte(head+"\n"+`{"at":1,"kind":"noted","text":"nothing happens"}`+"\n"), 0o600))
	run(t, "render", file).want(t, 1, "NOT as claimed")
}

func TestLabExploresFromASeed(t *testing.T) {
	t.Parallel()
	run(t, "explore", "--for", "20s", "--seed", "3").want(t, 0, "exploration of seed 3", "keeps every rule")
}

// Without protections the same exploration finds what they are for, and prints a
// command that finds it again, word by word, by a few of the faults; with them
// that plan breaks nothing.
func TestLabShrinksAndRepeatsWhatItFinds(t *testing.T) {
	testkit.NotRaced(t) // under it the scheduler draws who is next, and runs differ by nanoseconds
	t.Parallel()
	explore := func(args ...string) result { return run(t, append([]string{"explore"}, args...)...) }
	explore("--for", "1m", "--seed", "6").want(t, 0, "exploration of seed 6: 2 plans", "keeps every rule")
	found := explore("--for", "1m", "--seed", "6", "--protections", "off")
	found.want(t, 1, "two holders")
	_, command, printed := strings.Cut(found.errs, "repeat it:\n")
	flags, text, quoted := strings.Cut(strings.TrimSuffix(strings.TrimSpace(command), "'"), " --plan '")
	if !printed || !quoted || flags != "redlock-lab explore --protections off" {
		t.Fatalf("got %q; want the command that repeats it", found.errs)
	}
	plan, err := chaos.ParsePlan(text)
	testkit.Must(t, err)
	if whole := chaos.Swarm(6, plan.For); len(plan.Faults) > 5 || len(plan.Faults) >= len(whole.Faults) {
		t.Errorf("got %d faults of %d; want a few", len(plan.Faults), len(whole.Faults))
	}
	again := explore("--protections", "off", "--plan", text)
	if again.code != 1 || violationLine(again.out) != violationLine(found.out) || violationLine(again.out) == "" {
		t.Errorf("got exit status %d and\n%s\nwant 1, and what was found:\n%s", again.code, again.out, found.out)
	}
	explore("--plan", text).want(t, 0, "keeps every rule")
}

// violationLine is the first violation that lab printed: when, which, and by whom.
func violationLine(out string) string {
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "- ") {
			line, _, _ = strings.Cut(line, " since ") // by the machine's load it may move by nanoseconds
			return line
		}
	}
	return ""
}

func TestLabRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"play nonsense", 64, "no scenario"},
		{"play gcpause", 64, "(gc-pause?)"},
		{"play", 64, "one SCENARIO of redlock-lab list"},
		{"sleep", 64, "no command"},
		{"list all", 64, "got 1"},
		{"play gc-pause failover", 64, "one SCENARIO"},
		{"play gc-pause --backend cloud", 64, "virtual, embedded, real"},
		{"play gc-pause --protections luck", 64, "clock-watch"},
		{"play gc-pause --contender mutex", 64, "redlock-renewing, textbook, single"},
		{"play gc-pause --contender single --protections off", 64, "--contender"},
		{"play gc-pause --guard=perhaps", 64, "true or false"},
		{"play gc-pause --seed x", 64, "seed"},
		{"play gc-pause --server redis-server", 64, "--backend real"},
		{"play gc-pause --backend real --server no-such-program", 69, "no server program: exec: \"no-such-program\""},
		{"play gc-pause --html " + dir + "/no/such/directory/x.html", 1, "no such file"},
		{"render", 64, "TRACE"},
		{"render " + dir + "/none", 66, "no such file"},
		{"explore --for -1s", 64, "positive"},
		{"explore --for 1s --trace " + dir + "/no/such/directory/t", 1, "no such file"},
		{"explore --plan {}", 64, "plan"},
		{"explore --plan x", 64, "the JSON that an exploration which found something prints"},
	} {
		r := run(t, strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.out+r.errs, c.says) || r.out != "" { // no table: nothing was played
			t.Errorf("%q: got exit status %d and %s%s; want %d and %q", c.args, r.code, r.out, r.errs, c.code, c.says)
		}
	}
	bad := filepath.Join(dir, "bad")
	testkit.Must(t, os.WriteFile(bad, []byte("{\"at\":1}\nnonsense\n"), 0o600))
	run(t, "render", bad).want(t, 65, "is no trace, as play --trace writes it", "record 2")
}

// Without a server program the real backend is not there, and says so.
func TestLabSaysThatABackendIsNotAvailable(t *testing.T) {
	t.Parallel()
	cmd := prepare(t, "play", "gc-pause", "--backend", "real")
	cmd.Env = append(cmd.Env, "PATH=/nonexistent", "REDLOCK_TEST_SERVER=")
	finish(t, cmd).want(t, 69, "real backend")
}

func TestLabPlaysOnRealServers(t *testing.T) {
	t.Parallel()
	server := testserver.NeedOne(t, redisserver.Config{})
	cmd := prepare(t, "play", "amnesia-minority", "--backend", "real", "--contender", "single", "--server", server.Program())
	cmd.Env = append(cmd.Env, "PATH=/nonexistent", "REDLOCK_TEST_SERVER=")
	finish(t, cmd).want(t, 0, "real backend", "two holders", "as claimed")
	run(t, "play", "amnesia-minority", "--backend", "real", "--contender", "redlock,single").want(t, 0, "real backend", "two holders", "as claimed")
}
