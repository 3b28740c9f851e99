package guardtest_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// shellPage are the blocks of a page's section in this language.
func shellPage(t *testing.T, page, heading, language string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	testkit.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n### "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	section, _, _ = strings.Cut(section, "\n### ")
	var found []string
	for _, b := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(section, -1) {
		found = append(found, b[1])
	}
	return found
}

// shellStore is a database that a shell's client finds without an argument.
type shellStore struct {
	name  string
	db    *sql.DB
	guard *fencing.SQL
	env   []string
	stale struct { // what the client makes of a refusal
		code int
		says string
	}
}

// shellPostgres makes a database of its own.
func shellPostgres(t *testing.T) *shellStore {
	t.Helper()
	if pooled != "" {
		t.Skip("psql asks PostgreSQL itself")
	}
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skipf("psql is not installed: %v", err)
	}
	name := fmt.Sprintf("shell%d", tables.Add(1))
	all, _ := openPostgres(t)
	_, err := all.ExecContext(t.Context(), "CREATE DATABASE "+name)
	testkit.Must(t, err)
	dsn := strings.Replace(dsnOf(t, postgres), "dbname=postgres", "dbname="+name, 1)
	host := regexp.MustCompile(`host=(\S+)`).FindStringSubmatch(dsn)[1]
	s := &shellStore{name: "PostgreSQL", db: openDB(t, "pgx", dsn), env: []string{"PGHOST=" + host, "PGUSER=fencing", "PGDATABASE=" + name}}
	s.guard, err = fencing.NewSQL(fencing.PostgreSQL())
	testkit.Must(t, err)
	s.stale.code, s.stale.says = 3, "was seen"
	return s
}

// shellMariaDB makes the page's database. Its client is given the server, as ~/.my.cnf would.
func shellMariaDB(t *testing.T) *shellStore {
	t.Helper()
	client, err := exec.LookPath("mysql")
	if err != nil {
		t.Skipf("mysql is not installed: %v", err)
	}
	all, _ := openMariaDB(t)
	for _, statement := range []string{"DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop"} {
		_, err := all.ExecContext(t.Context(), statement)
		testkit.Must(t, err)
	}
	dsn, bin := dsnOf(t, mariadb), t.TempDir()
	socket := regexp.MustCompile(`unix\((.*)\)`).FindStringSubmatch(dsn)[1]
	text := "#!/bin/sh\nexec " + client + " --no-defaults --user=root --socket=" + socket + ` "$@"` + "\n"
	testkit.Must(t, os.WriteFile(filepath.Join(bin, "mysql"), []byte(text), 0o700))
	s := &shellStore{name: "MariaDB", db: openDB(t, "mysql", dsn+"shop"), env: []string{"PATH=" + bin + ":" + os.Getenv("PATH")}}
	s.guard, err = fencing.NewSQL(fencing.MariaDB())
	testkit.Must(t, err)
	s.stale.code, s.stale.says = 1, "Subquery returns more than 1 row"
	return s
}

func (s *shellStore) exec(t *testing.T, statement string) {
	t.Helper()
	_, err := s.db.ExecContext(t.Context(), statement)
	testkit.Must(t, err)
}

// shell runs a line where pay.sql is, and returns its exit status and all that it printed.
func (s *shellStore) shell(t *testing.T, dir, line string, env ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = dir, slices.Concat(os.Environ(), s.env, env)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// paid reports whether the line's write has come, and takes it back.
func (s *shellStore) paid(t *testing.T) bool {
	t.Helper()
	var state string
	testkit.Must(t, s.db.QueryRowContext(t.Context(), "SELECT state FROM invoices WHERE id = 7").Scan(&state))
	s.exec(t, "UPDATE invoices SET state = 'open'")
	return state == "paid"
}

// The lines of docs/FENCING.md for psql and mysql, as they stand there, over a database each.
// Their table is also the guard's in Go, and each refuses whom the other has outdated.
func TestWritesFromAShellAreGuarded(t *testing.T) {
	creates := strings.Split(strings.TrimSpace(shellPage(t, "FENCING.md", "From a shell", "sql")[0]), "\n")
	scripts, lines := shellPage(t, "FENCING.md", "From a shell", "sql")[1:], shellPage(t, "FENCING.md", "From a shell", "sh")
	if len(creates) != 2 || len(scripts) != 2 || len(lines) != 2 {
		t.Fatalf("got %q, %q and %q; want two of each", creates, scripts, lines)
	}
	bin := t.TempDir()
	command := filepath.Join(bin, "redlock")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", command, "github.com/quorumkit/redlock/cmd/redlock").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	hold, err := filepath.Abs("../../examples/shellhold/hold.sh")
	testkit.Must(t, err)
	nodes := redlocktest.Start(t, 3, redlocktest.WithTCP())
	for i, open := range []func(*testing.T) *shellStore{shellPostgres, shellMariaDB} {
		t.Run([]string{"psql", "mysql"}[i], func(t *testing.T) {
			s, dir := open(t), t.TempDir()
			for _, statement := range []string{creates[i], "CREATE TABLE invoices (id bigint PRIMARY KEY, state varchar(9) NOT NULL)", "INSERT INTO invoices VALUES (7, 'open')"} {
				s.exec(t, statement)
			}
			line := strings.TrimSpace(lines[i])
			_, alone, _ := strings.Cut(line, " -- ")
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "pay.sql"), []byte(scripts[i]), 0o600), os.WriteFile(filepath.Join(dir, "pay"), []byte(alone), 0o600))
			s.env = append(s.env, "REDLOCK_NODES="+strings.Join(nodes.URLs(), ","), "REDLOCK="+command+" --node-timeout 2s")
			run := func(line string, env ...string) (int, string) {
				return s.shell(t, dir, "redlock() { $REDLOCK \"$@\"; }\n"+line, env...)
			}
			token := func() string {
				code, out := run("redlock exec invoice:7 -- sh -c 'echo $REDLOCK_TOKEN'")
				if code != 0 {
					t.Fatalf("got exit status %d: %s", code, out)
				}
				return strings.TrimSpace(out)
			}
			wantStale := func(code int, out string) {
				t.Helper()
				if code != s.stale.code || !strings.Contains(out, s.stale.says) || s.paid(t) {
					t.Errorf("who is late: got exit status %d: %s; want %d, %q and nothing written", code, out, s.stale.code, s.stale.says)
				}
			}
			wantPaid := func(code int, out, silent string) {
				t.Helper()
				if code != 0 || silent != out || !s.paid(t) {
					t.Errorf("got exit status %d: %q; want it paid, and %q", code, out, silent)
				}
			}

			late := token()
			code, out := run(line)
			wantPaid(code, out, "")
			wantStale(run(alone, "REDLOCK_TOKEN="+late))
			latest := token()
			for range 2 { // one holder may write twice
				code, out = run(alone, "REDLOCK_TOKEN="+latest)
				wantPaid(code, out, "")
			}
			if code, out := run(alone, "REDLOCK_TOKEN="); code == 0 || s.paid(t) {
				t.Errorf("without a token: got exit status %d: %s; want nothing written", code, out)
			}
			code, out = run("sh "+hold+" invoice:7", "REDLOCK="+command, "WORK=sh pay")
			if !strings.HasPrefix(out, "holding invoice:7 with the token ") {
				t.Errorf("hold.sh: got %q", out)
			}
			wantPaid(code, out, out)
			wantStale(run(alone, "REDLOCK_TOKEN="+latest))

			testkit.Must(t, s.guard.Migrate(t.Context(), s.db))
			write := func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), "UPDATE invoices SET state = 'paid' WHERE id = 7")
				return err
			}
			var number redlock.Token
			_, err := fmt.Sscan(latest, &number)
			testkit.Must(t, err)
			if err := s.guard.Write(t.Context(), s.db, nil, "invoice:7", number, write); !errors.Is(err, fencing.ErrStale) || s.paid(t) {
				t.Errorf("who is late, in Go: got %v; want it refused", err)
			}
			latest = token()
			_, err = fmt.Sscan(token(), &number)
			testkit.Must(t, err, s.guard.Write(t.Context(), s.db, nil, "invoice:7", number, write))
			s.paid(t)
			wantStale(run(alone, "REDLOCK_TOKEN="+latest))
		})
	}
}

// docs/OPERATIONS.md's report is run by one of many hosts on a day, though none of them holds
// anything meanwhile, and again on the next.
func TestADayHasOneReport(t *testing.T) {
	creates, scripts := shellPage(t, "OPERATIONS.md", "At most once a day", "sql"), shellPage(t, "OPERATIONS.md", "At most once a day", "sh")
	if len(creates) != 1 || len(scripts) != 1 {
		t.Fatalf("got %q and %q; want one of each", creates, scripts)
	}
	s, dir := shellPostgres(t), t.TempDir()
	s.exec(t, creates[0])
	ran := filepath.Join(dir, "ran")
	testkit.Must(t,
		os.WriteFile(filepath.Join(dir, "report"), []byte("#!/bin/sh\necho ran >>"+ran+"\n"), 0o700),
		os.WriteFile(filepath.Join(dir, "daily"), []byte(strings.ReplaceAll(scripts[0], "/usr/local/bin", dir)), 0o700))
	reports := func() int {
		text, err := os.ReadFile(ran)
		testkit.Must(t, err)
		return strings.Count(string(text), "ran\n")
	}
	day := func(want int) {
		t.Helper()
		var hosts sync.WaitGroup
		for range 8 {
			hosts.Go(func() {
				if code, out := s.shell(t, dir, "./daily"); code != 0 || out != "" {
					t.Errorf("got exit status %d: %s; want 0, and silence", code, out)
				}
			})
		}
		hosts.Wait()
		if got := reports(); got != want {
			t.Errorf("got %d reports; want %d", got, want)
		}
	}
	if h := time.Now(); h.Hour() == 23 && h.Minute() > 55 {
		t.Skip("two days may be in it")
	}
	day(1)
	day(1) // a host that was down
	s.exec(t, "UPDATE ran SET day = day - 1")
	day(2)
	if code, out := s.shell(t, dir, "./daily", "PGHOST="+dir); code == 0 || reports() != 2 {
		t.Errorf("without the database: got exit status %d: %s; want a failure", code, out)
	}
}
