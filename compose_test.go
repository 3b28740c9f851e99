package redlock_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// composeNodes is how many masters docker-compose.yml promises.
const composeNodes = 5

type composeMap = map[string]any

func TestComposeHasFiveIndependentMasters(t *testing.T) {
	file := readCompose(t)
	services := composeChild(t, file, "services")
	if len(services) != composeNodes {
		t.Errorf("got %d services; want %d", len(services), composeNodes)
	}
	volumes := composeChild(t, file, "volumes")
	ports := map[string]string{}
	stores := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		s := composeChild(t, services, name)
		for _, key := range slices.Sorted(maps.Keys(s)) {
			if !slices.Contains([]string{"image", "command", "restart", "healthcheck", "ports", "volumes"}, key) {
				t.Errorf("%s has %q, of which this test does not know what it does to the promises", name, key)
			}
		}
		port := composeOnly(t, name, s, "ports")
		if !regexp.MustCompile(`^127\.0\.0\.1:\d+:6379$`).MatchString(port) {
			t.Errorf("%s: got port %q; want one on loopback only", name, port)
		}
		if other, taken := ports[port]; taken {
			t.Errorf("%s and %s share port %s", name, other, port)
		}
		ports[port] = name

		volume, path, _ := strings.Cut(composeOnly(t, name, s, "volumes"), ":")
		if _, declared := volumes[volume]; !declared || path != "/data" {
			t.Errorf("%s: got volume %s at %s; want a named one at /data", name, volume, path)
		}
		if other, taken := stores[volume]; taken {
			t.Errorf("%s and %s share the volume %s: they are not independent", name, other, volume)
		}
		stores[volume] = name
	}
}

func TestComposeTakesItsImageFromAVariable(t *testing.T) {
	for name, s := range composeServices(t) {
		image, _ := s["image"].(string)
		if !regexp.MustCompile(`^\$\{REDLOCK_IMAGE:-(redis:8\.0|valkey/valkey:8\.1)[\w.-]*\}$`).MatchString(image) {
			t.Errorf("%s: got image %q; want ${REDLOCK_IMAGE:-...} with a server that was tried as default", name, image)
		}
	}
}

// A node that restarted does not vote for MaxTTL, so nobody has to look at it first:
// TestAServerRestartedEmptyVotesAgainWithinMaxTTLAndASecond. One that an operator
// stopped must stay stopped: a node that was taken out, for one.
func TestComposeRestartsANodeUnlessItWasStopped(t *testing.T) {
	for name, s := range composeServices(t) {
		if got := s["restart"]; got != "unless-stopped" {
			t.Errorf("%s: got restart %v; want unless-stopped", name, got)
		}
	}
}

// Each check is a process in the container.
func TestComposeAsksOftenAtTheStartOnly(t *testing.T) {
	for name, s := range composeServices(t) {
		check := composeChild(t, s, "healthcheck")
		long := func(key string) time.Duration {
			text, _ := check[key].(string)
			d, err := time.ParseDuration(text)
			if err != nil {
				t.Errorf("%s: got %s %q; want a duration", name, key, text)
			}
			return d
		}
		if interval, start, period := long("interval"), long("start_interval"), long("start_period"); interval < 10*time.Second || start > 2*time.Second || period < interval {
			t.Errorf("%s: got a check every %v, and every %v for the first %v; want 10s or more, and 2s or less for no less than that", name, interval, start, period)
		}
	}
}

// What the command line sets is asked of a real server that was started with it.
func TestComposeSettingsAreThoseOfADurableMaster(t *testing.T) {
	want := map[string]string{
		"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "save": "",
	}
	services := composeServices(t)
	names := slices.Sorted(maps.Keys(services))
	for _, name := range names {
		args := composeList(t, name, services[name], "command")
		if len(args) == 0 || !strings.HasPrefix(args[0], "-") {
			t.Fatalf("%s: got command %q; want arguments only, for the image to add its server's name", name, args)
		}
		if !slices.Equal(args, composeList(t, names[0], services[names[0]], "command")) {
			t.Errorf("%s is started otherwise than %s", name, names[0])
		}
		for key, value := range want {
			if i := slices.Index(args, "--"+key); i < 0 || i+1 == len(args) || args[i+1] != value {
				t.Errorf("%s: got command %q; want --%s %q", name, args, key, value)
			}
		}
	}

	server := testserver.NeedOne(t, redisserver.Config{Args: composeList(t, names[0], services[names[0]], "command")})
	for key, value := range want {
		got, err := server.Client().ConfigGet(t.Context(), key).Result()
		if err != nil || got[key] != value {
			t.Errorf("a server so started: got %s %q, %v; want %q", key, got[key], err, value)
		}
	}
}

func TestComposeHealthCheckFailsWhenTheServerIsNotHealthy(t *testing.T) {
	testkit.Full(t)
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no /bin/sh, as the images have it")
	}
	for name, s := range composeServices(t) {
		check := composeChild(t, s, "healthcheck")
		for _, key := range []string{"interval", "timeout", "retries"} {
			if v, _ := check[key].(string); v == "" || v == "0" || v == "0s" {
				t.Errorf("%s: got %s %q; want a bound", name, key, v)
			}
		}
		if _, disabled := check["disable"]; disabled {
			t.Errorf("%s: the health check can be disabled", name)
		}
		test := composeList(t, name, check, "test")
		if len(test) != 2 || test[0] != "CMD-SHELL" {
			t.Fatalf("%s: got test %q; want CMD-SHELL and one line", name, test)
		}
		for _, tc := range []struct {
			cli, script string
			healthy     bool
		}{
			{"redis-cli", "echo PONG", true},
			{"valkey-cli", "echo PONG", true},
			// An error reply is printed, and the exit status is 0 all the same.
			{"redis-cli", "echo 'LOADING Redis is loading the dataset in memory'", false},
			{"redis-cli", "echo 'NOAUTH Authentication required.'", false},
			{"valkey-cli", "echo 'MISCONF errors writing to the AOF file; last PONG'", false},
			{"redis-cli", "echo 'Could not connect to Redis: Connection refused' >&2; exit 1", false},
			{"redis-cli", "exit 0", false},
			{"no-cli", "echo PONG", false},
		} {
			// $$ is a dollar sign in a compose file.
			if got := composeHealthy(t, strings.ReplaceAll(test[1], "$$", "$"), tc.cli, tc.script); got != tc.healthy {
				t.Errorf("%s with a %s that does %q: healthy %t; want %t", name, tc.cli, tc.script, got, tc.healthy)
			}
		}
	}
}

// composeHealthy runs a health check where cli is the only client program, and does
// what the script says.
func composeHealthy(t *testing.T, check, cli, script string) bool {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, cli), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	grep, err := exec.LookPath("grep")
	if err != nil {
		t.Skip("no grep, as the images have it")
	}
	must(t, os.Symlink(grep, filepath.Join(dir, "grep")))
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", check)
	cmd.Env = []string{"PATH=" + dir}
	return cmd.Run() == nil
}

func composeServices(t *testing.T) map[string]composeMap {
	t.Helper()
	services := composeChild(t, readCompose(t), "services")
	all := map[string]composeMap{}
	for name := range services {
		all[name] = composeChild(t, services, name)
	}
	if len(all) == 0 {
		t.Fatal("no services")
	}
	return all
}

func composeChild(t *testing.T, parent composeMap, key string) composeMap {
	t.Helper()
	m, ok := parent[key].(composeMap)
	if !ok {
		t.Fatalf("got %s: %v; want a mapping", key, parent[key])
	}
	return m
}

func composeList(t *testing.T, name string, parent composeMap, key string) []string {
	t.Helper()
	l, ok := parent[key].([]string)
	if !ok {
		t.Fatalf("%s: got %s: %v; want a list", name, key, parent[key])
	}
	return l
}

func composeOnly(t *testing.T, name string, parent composeMap, key string) string {
	t.Helper()
	l := composeList(t, name, parent, key)
	if len(l) != 1 {
		t.Fatalf("%s: got %s %q; want one", name, key, l)
	}
	return l[0]
}

// readCompose reads docker-compose.yml, or rather the small part of YAML that
// it is written in: a YAML library would be a dependency of the module. What it
// does not know is an error, so nothing in the file goes unread.
func readCompose(t *testing.T) composeMap {
	t.Helper()
	text, err := os.ReadFile("docker-compose.yml")
	must(t, err)
	p := &composeParser{anchors: map[string]composeMap{}}
	for i, line := range strings.Split(string(text), "\n") {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "#") {
			p.lines = append(p.lines, composeLine{i + 1, len(line) - len(strings.TrimLeft(line, " ")), s})
		}
	}
	file, err := p.mapping(0)
	if err == nil && len(p.lines) > 0 {
		err = fmt.Errorf("line %d is indented otherwise than what is before it", p.lines[0].number)
	}
	if err != nil {
		t.Fatalf("docker-compose.yml: %v", err)
	}
	return file
}

type composeLine struct {
	number, indent int
	text           string
}

type composeParser struct {
	lines   []composeLine // not yet read
	anchors map[string]composeMap
}

var composeKey = regexp.MustCompile(`^([\w<-][\w.<-]*):(?:\s+(.*))?$`)

// mapping reads the lines that have the indent, and what is below them.
func (p *composeParser) mapping(indent int) (composeMap, error) {
	m := composeMap{}
	for len(p.lines) > 0 && p.lines[0].indent == indent {
		line := p.lines[0]
		p.lines = p.lines[1:]
		match := composeKey.FindStringSubmatch(line.text)
		if match == nil {
			return nil, fmt.Errorf("line %d: %q is no key", line.number, line.text)
		}
		if _, twice := m[match[1]]; twice {
			return nil, fmt.Errorf("line %d: a second %q", line.number, match[1])
		}
		if err := p.entry(m, line, match[1], match[2]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// entry reads the value of one key: on its line, or below it.
func (p *composeParser) entry(m composeMap, line composeLine, key, value string) error {
	anchor, anchored := strings.CutPrefix(value, "&")
	switch {
	case key == "<<":
		base, ok := p.anchors[strings.TrimPrefix(value, "*")]
		if !ok {
			return fmt.Errorf("line %d: nothing is called %s", line.number, value)
		}
		for k, v := range base {
			if _, own := m[k]; !own {
				m[k] = v
			}
		}
		return nil
	case value != "" && !anchored:
		v, err := composeValue(value)
		if err != nil {
			return fmt.Errorf("line %d: %w", line.number, err)
		}
		m[key] = v
		return nil
	case len(p.lines) == 0 || p.lines[0].indent <= line.indent:
		m[key] = nil
		return nil
	case strings.HasPrefix(p.lines[0].text, "- "):
		items, err := p.items(p.lines[0].indent)
		m[key] = items
		return err
	}
	below, err := p.mapping(p.lines[0].indent)
	if anchored {
		p.anchors[anchor] = below
	}
	m[key] = below
	return err
}

// items reads a list of one scalar a line.
func (p *composeParser) items(indent int) ([]string, error) {
	var all []string
	for len(p.lines) > 0 && p.lines[0].indent == indent {
		line := p.lines[0]
		p.lines = p.lines[1:]
		text, ok := strings.CutPrefix(line.text, "- ")
		v, err := composeValue(text)
		s, scalar := v.(string)
		if !ok || err != nil || !scalar {
			return nil, fmt.Errorf("line %d: %q is no list item of one word: %w", line.number, line.text, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// composeValue reads a scalar, or a list in brackets whose items are in double
// quotes, as in JSON.
func composeValue(text string) (any, error) {
	switch {
	case strings.HasPrefix(text, "["):
		var all []string
		err := json.Unmarshal([]byte(text), &all)
		return all, err
	case strings.HasPrefix(text, `"`):
		var s string
		err := json.Unmarshal([]byte(text), &s)
		return s, err
	case strings.ContainsAny(text[:1], "{*&!|>'%@`") || strings.Contains(text, " #") || strings.Contains(text, ": "):
		return nil, fmt.Errorf("%q is more YAML than this test reads", text)
	case slices.Contains([]string{"yes", "no", "on", "off", "true", "false", "null", "~"}, text):
		return nil, fmt.Errorf("%q without quotes is no string in YAML", text)
	}
	return text, nil
}
