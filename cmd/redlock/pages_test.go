//go:build unix

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// playedBlocks are the blocks of commands on the pages, and how each is run.
var playedBlocks = []playedBlock{
	{page: "docs/COMMAND.md", steps: []step{
		{line: "go install github.com/quorumkit/redlock/cmd/redlock@latest", do: (*pagePlay).install},
		{line: "redlock version", words: []string{"redlock "}},
	}},
	{page: "docs/OPERATIONS.md", steps: []step{
		{line: "export REDLOCK_NODES=10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379", do: (*pagePlay).export},
		{line: "redlock nodes", words: []string{"3 votes of 3 nodes"}},
	}},
	{page: "docs/OPERATIONS.md", secret: true, steps: []step{
		{line: "install -m 600 /dev/null /etc/redlock.nodes", then: (*pagePlay).writeNodesFile},
		{line: "redlock nodes --nodes-file /etc/redlock.nodes", words: []string{"3 votes of 3 nodes"}},
	}},
	{page: "docs/OPERATIONS.md", blank: true, maxTTL: "4s", steps: []step{
		{line: "redlock nodes join --wait", words: []string{"3 votes of 3 nodes", "above 4s"}},
		{line: "redlock nodes admit --yes", words: []string{"3 votes of 3 nodes"}},
		{line: "redlock doctor", instead: []string{"redlock doctor", "redlock doctor --ttl 4s"}, words: []string{"3 of 3 nodes answered"}},
	}},
	{page: "docs/OPERATIONS.md", maxTTL: "2s", instead: []string{"60s", "3s", "30s", "2s"}, steps: []step{
		{line: "redlock nodes change --max-ttl 60s", words: []string{"1 of 1, MaxTTL 3s: ", "MaxTTL 3s: "}},
		{line: "redlock nodes change --max-ttl 30s", words: []string{"2 of 2, close: ", "MaxTTL 2s: "}},
	}},
	{page: "docs/OPERATIONS.md", maxTTL: "2s", steps: []step{
		{line: "redlock nodes change --strict on", words: []string{"1 of 1, strict recovery on: ", "strict recovery: "}},
	}},
	{page: "docs/OPERATIONS.md", blank: true, before: (*pagePlay).needRedisCLI, steps: []step{
		{line: "redlock nodes acl 'orders/*' | redis-cli -u redis://10.0.0.1:6379", words: []string{"OK"}},
		{line: "redis-cli -u redis://10.0.0.1:6379 ACL SETUSER redlock on '>SECRET'", words: []string{"OK"}, then: (*pagePlay).lockAsTheUser},
	}},
	{page: "docs/OPERATIONS.md", maxTTL: "2s", steps: []step{
		{line: "redlock nodes", words: []string{"3 votes of 3 nodes"}},
		{line: "ssh node1 systemctl restart redis", do: (*pagePlay).restartFirst},
		{line: "redlock nodes join --wait", words: []string{"3 votes of 3 nodes"}},
		{line: "redlock nodes", words: []string{"3 votes of 3 nodes"}},
	}},
	{page: "docs/OPERATIONS.md", before: (*pagePlay).writeNodesFile, steps: []step{
		{line: "ExecStart=/usr/local/bin/redlock nodes join --wait --timeout 5m --nodes-file /etc/redlock.nodes", words: []string{"3 votes of 3 nodes"}},
	}},
	{page: "docs/OPERATIONS.md", before: (*pagePlay).writeNodesFile, instead: []string{"60s", "1s"}, steps: []step{
		{line: "*/5 * * * * /usr/local/bin/redlock exec --nodes-file /etc/redlock.nodes --skip-if-busy --hold-at-least 60s --max-hold 4m report -- /usr/local/bin/report", words: []string{"worked"}},
	}},
	{page: "docs/OPERATIONS.md", before: (*pagePlay).writeNodesFile, steps: []step{
		{line: "ExecStart=/usr/local/bin/redlock lead --nodes-file /etc/redlock.nodes --value 10.0.0.7:80 orders -- /usr/local/bin/orders", words: []string{"worked"}},
	}},
	{page: "docs/OPERATIONS.md", before: (*pagePlay).writeNodesFile, steps: []step{
		{line: "*/5 * * * * out=$(/usr/local/bin/redlock nodes --nodes-file /etc/redlock.nodes 2>&1) || echo \"$out\"", do: (*pagePlay).mailOfNodes},
		{line: "7 * * * * out=$(/usr/local/bin/redlock doctor --nodes-file /etc/redlock.nodes 2>&1) || echo \"$out\"", words: []string{"1 of 3 nodes answered"}},
	}},
	{page: "docs/FAQ.md", blank: true, steps: []step{
		{
			line:    "go run github.com/quorumkit/redlock/cmd/redlock@latest nodes admit --yes --nodes 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003",
			instead: []string{"go run github.com/quorumkit/redlock/cmd/redlock@latest", "redlock", "127.0.0.1:7001", "10.0.0.1:6379", "127.0.0.1:7002", "10.0.0.2:6379", "127.0.0.1:7003", "10.0.0.3:6379"},
			words:   []string{"3 votes of 3 nodes"},
		},
	}},
	{page: "docs/CHAOS.md", steps: []step{
		{line: "go install github.com/quorumkit/redlock/cmd/redlock-lab@latest", do: (*pagePlay).install},
		{line: "redlock-lab list", words: []string{"amnesia-majority\n"}},
		{line: "redlock-lab play gc-pause --html gc-pause.html", words: []string{"Take away: "}, makes: "gc-pause.html"},
		{line: "redlock-lab play grow-and-shrink --backend real --html grow.html", words: []string{"as claimed"}, makes: "grow.html"},
		{line: "redlock-lab play amnesia-majority --protections off", words: []string{"two holders"}},
		{line: "redlock-lab play gc-pause --trace t.jsonl && redlock-lab render t.jsonl --html t.html", makes: "t.html"},
		{line: "redlock-lab explore --seed 7 --for 5m", instead: []string{"5m", "3s"}, words: []string{"3s"}},
		{line: "redlock-lab explore --protections off --for 5m", code: 1, words: []string{"are enough; repeat it:"}},
	}},
}

// runElsewhere are the beginnings of blocks that other tests run, line by line, or that
// none can run.
var runElsewhere = map[string]string{
	"README.md for port in 7001 7002 7003":                   "TestTheReadmesFirstScreenBringsALock",
	"README.md go run github.com/quorumkit/redlock/cmd":      "TestTheReadmesFirstScreenBringsALock",
	"CONTRIBUTING.md go run ./examples/quickstart":           "TestTheCommandsOfThePagesExist; they are the tests, and CI",
	"README.md go run ./examples/quickstart":                 "TestTheLockOutlivesTwoOfFiveMasters; the second is the tests, and CI",
	"docs/GETTING-STARTED.md docker compose up":              "TestThePagesCommandsDoWhatItSays; it needs docker",
	"docs/GETTING-STARTED.md export REDLOCK_NODES=127.0.0.1": "TestThePagesCommandsDoWhatItSays",
	"docs/GETTING-STARTED.md go run ./cmd/redlock-lab":       "TestThePagesCommandsDoWhatItSays",
	"docs/OPERATIONS.md #!/bin/sh -e":                        "TestADayHasOneReport",
	"docs/FENCING.md redlock exec invoice:7 -- psql":         "TestWritesFromAShellAreGuarded",
	"docs/FENCING.md redlock exec invoice:7 -- sh":           "TestWritesFromAShellAreGuarded",
	"docs/OPERATIONS.md export REDLOCK_CLUSTER":              "TestOneCommandGoesThroughAllSteps",
	"docs/FAQ.md go mod edit":                                "TestEveryModuleCanBeFetched",
	"docs/OBSERVING.md go get":                               "TestEveryModuleCanBeFetched",
	"docs/CHAOS.md cp -r":                                    "TestEveryModuleCanBeFetched",
}

// playedBlock is a block of commands, and the masters that it is for: three that vote.
type playedBlock struct {
	page    string
	steps   []step
	before  func(*pagePlay)
	instead []string // old and new, in turn, of all its lines
	maxTTL  string   // what clients and cluster are given in the place of 30 s
	blank   bool     // the masters are new
	secret  bool     // they have a password
}

// step is a line of a block, what stands in for parts of it, and what it must do.
type step struct {
	line    string
	instead []string
	before  func(*pagePlay)
	do      func(p *pagePlay, s step, line string) // in the place of the shell
	code    int
	words   []string
	makes   string // a file
	then    func(*pagePlay)
}

// pagePlay is a run of a block.
type pagePlay struct {
	*testing.T

	block   playedBlock
	servers []*redisserver.Server
	nodes   string
	dir     string
}

// Every block of commands on every page is run over real masters: as it stands, but for
// addresses, files and the length of waits. What ssh would do to a master is done to it.
func TestEveryCommandOfThePagesRuns(t *testing.T) {
	t.Parallel()
	testserver.NeedOne(t, redisserver.Config{}) // or skips
	names, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	rest, seen := slices.Clone(playedBlocks), map[string]bool{}
	for _, name := range append(names, "../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md") {
		page := strings.TrimPrefix(name, "../../")
		text, err := os.ReadFile(name)
		must(t, err)
		for _, found := range regexp.MustCompile("(?ms)^```(?:sh|ini|crontab)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			if begin := beginsElsewhere(page + " " + found[1]); begin != "" {
				seen[begin] = true
				continue
			}
			lines := commandLines(found[1])
			i := slices.IndexFunc(rest, func(b playedBlock) bool { return b.page == page && slices.Equal(b.lines(), lines) })
			if i < 0 {
				t.Errorf("%s has a block that this test does not know: teach it what its lines do, or say who runs them:\n%s", page, strings.Join(lines, "\n"))
				continue
			}
			b := rest[i]
			rest = slices.Delete(rest, i, i+1)
			plain := regexp.MustCompile(`[^\w ./:-]`).ReplaceAllString(lines[0], "") // the directory has this name
			t.Run(strings.TrimPrefix(page, "docs/")+" "+plain, func(t *testing.T) {
				t.Parallel()
				b.play(t)
			})
		}
	}
	for _, b := range rest {
		t.Errorf("%s no longer has the block %q", b.page, b.lines())
	}
	if len(seen) != len(runElsewhere) {
		t.Errorf("got %d blocks that others run; want %d", len(seen), len(runElsewhere))
	}
}

func beginsElsewhere(text string) string {
	for begin := range runElsewhere {
		if strings.HasPrefix(text, begin) {
			return begin
		}
	}
	return ""
}

// commandLines are a block's commands: of a unit what it starts.
func commandLines(block string) []string {
	var lines []string
	unit := strings.Contains(block, "ExecStart=")
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
		if line = strings.TrimSpace(line); line != "" && (!unit || strings.HasPrefix(line, "ExecStart=")) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (b playedBlock) lines() []string {
	var lines []string
	for _, s := range b.steps {
		lines = append(lines, s.line)
	}
	return lines
}

// play runs a block.
func (b playedBlock) play(t *testing.T) {
	t.Helper()
	p := &pagePlay{T: t, block: b, dir: t.TempDir()}
	p.prepare()
	if b.before != nil {
		b.before(p)
	}
	for _, s := range b.steps {
		if s.before != nil {
			s.before(p)
		}
		line := p.stood(s)
		if s.do != nil {
			s.do(p, s, line)
		} else {
			p.want(s, line)
		}
		if s.then != nil {
			s.then(p)
		}
	}
}

// want runs a line to its end, and checks what it said.
func (p *pagePlay) want(s step, line string) {
	p.Helper()
	r := finish(p.T, p.shell(line))
	if strings.HasPrefix(s.line, "redlock doctor") {
		r = contentDoctor(p.T, r, func() *exec.Cmd { return p.shell(line) })
	}
	r.want(p.T, s.code, s.words...)
	if s.makes != "" {
		if info, err := os.Stat(filepath.Join(p.dir, s.makes)); err != nil || info.Size() == 0 {
			p.Errorf("%s: got %v; want %s written", s.line, err, s.makes)
		}
	}
}

// prepare starts the masters, and makes a directory with what the lines name.
func (p *pagePlay) prepare() {
	config := redisserver.Config{AOF: redisserver.FsyncEverysec, Args: []string{"--maxmemory", "256mb", "--maxmemory-policy", "noeviction"}}
	if p.block.secret {
		config.Password = "hunter2"
	}
	if !strings.Contains(p.block.steps[0].line, "redlock-lab") {
		p.servers, p.nodes = blanks(p.T, 3, config)
	}
	const work = "#!/bin/sh\necho worked $REDLOCK_TOKEN\n"
	for name, text := range map[string]string{
		"redlock": "#!/bin/sh\nexec \"$REDLOCK\" --node-timeout 1s " + p.flags() + " \"$@\"\n",
		"report":  work, "orders": work,
	} {
		must(p.T, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o700))
	}
	if p.servers != nil && !p.block.blank {
		finish(p.T, p.shell("redlock nodes admit --yes")).want(p.T, 0)
	}
}

func (p *pagePlay) flags() string {
	if p.block.maxTTL == "" {
		return ""
	}
	return "--max-ttl " + p.block.maxTTL
}

// stood is a step's line with what stands in for its parts.
func (p *pagePlay) stood(s step) string {
	line := strings.NewReplacer(append(slices.Clone(s.instead), p.block.instead...)...).Replace(s.line)
	for i, server := range p.servers {
		line = strings.ReplaceAll(line, "10.0.0."+string(rune('1'+i))+":6379", server.Addr())
	}
	line = regexp.MustCompile(`^(ExecStart=|([\d*/]+ ){5})`).ReplaceAllString(line, "") // of a unit, and of a crontab
	return strings.NewReplacer(
		"/etc/", p.dir+"/", "/usr/local/bin/", p.dir+"/", "go run ./cmd/", "",
	).Replace(line)
}

// shell prepares a line, run where all that it names is.
func (p *pagePlay) shell(line string) *exec.Cmd {
	cmd := exec.CommandContext(p.Context(), "sh", "-c", line)
	cmd.Dir, cmd.WaitDelay = p.dir, patience
	cmd.Env = append(os.Environ(), "REDLOCK="+command, "PATH="+p.dir+":"+filepath.Dir(command)+":"+os.Getenv("PATH"))
	if !strings.Contains(line, "--nodes-file") {
		cmd.Env = append(cmd.Env, "REDLOCK_NODES="+p.nodes)
	}
	return cmd
}

// ---- what is done in the place of a line, before it and after it

// install installs this tree's command, and has the next lines use that.
func (p *pagePlay) install(s step, _ string) {
	path, _, _ := strings.Cut(strings.TrimPrefix(s.line, "go install "), "@")
	cmd := exec.CommandContext(p.Context(), "go", "install", path)
	cmd.Env = append(os.Environ(), "GOBIN="+p.dir, "GOFLAGS=")
	must(p.T, os.RemoveAll(filepath.Join(p.dir, filepath.Base(path))))
	if out, err := cmd.CombinedOutput(); err != nil {
		p.Fatalf("%s: %v\n%s", s.line, err, out)
	}
}

func (p *pagePlay) export(_ step, line string) {
	_, p.nodes, _ = strings.Cut(line, "=")
}

// writeNodesFile does what is left to who reads: the URLs, one a line.
func (p *pagePlay) writeNodesFile() {
	name := filepath.Join(p.dir, "redlock.nodes")
	if _, err := os.Stat(name); err != nil {
		must(p.T, os.WriteFile(name, nil, 0o600))
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0) // with the rights that it has
	must(p.T, err)
	_, err = f.WriteString(strings.ReplaceAll(p.nodes, ",", "\n") + "\n")
	must(p.T, err, f.Close())
}

func (p *pagePlay) restartFirst(step, string) { must(p.T, p.servers[0].Restart()) }

func (p *pagePlay) needRedisCLI() {
	if _, err := exec.LookPath("redis-cli"); err != nil {
		p.Skipf("the lines are redis-cli's: %v", err)
	}
}

// lockAsTheUser takes a lock of the page's names on the one node that knows the user, and
// none of another name.
func (p *pagePlay) lockAsTheUser() {
	p.nodes = "redis://redlock:SECRET@" + p.servers[0].Addr()
	finish(p.T, p.shell("redlock nodes admit --yes && redlock exec -n orders/42 -- echo worked")).want(p.T, 0, "worked")
	finish(p.T, p.shell("redlock exec -n other -- true")).want(p.T, 78, "NOPERM")
	if left, err := filepath.Glob(filepath.Join(p.dir, "*SECRET*")); err != nil || left != nil {
		p.Errorf("got the files %q, %v; want none that a shell made of the password", left, err)
	}
}

// mailOfNodes wants silence while all is well, and the page of the nodes once two are stopped.
func (p *pagePlay) mailOfNodes(s step, line string) {
	if r := finish(p.T, p.shell(line)); r.code != 0 || r.out+r.errs != "" {
		p.Errorf("%s: got exit status %d: %s%s; want silence", s.line, r.code, r.out, r.errs)
	}
	for _, server := range p.servers[1:] {
		must(p.T, server.Kill())
	}
	finish(p.T, p.shell(line)).want(p.T, 0, "0 votes of 3 nodes, quorum 2")
}
