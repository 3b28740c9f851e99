package interop

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
)

// launch is how a unit or a manifest starts redlock, and what becomes of its exit statuses.
type launch struct {
	args  []string
	done  []int // these count as done: first where another holds, then where TERM ended it
	final []int // after these it is not started again
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile("../" + file)
	testkit.Must(t, err)
	return string(b)
}

// unit is a unit of systemd.
func unit(t *testing.T, file string) launch {
	t.Helper()
	key := func(name string) []string {
		_, rest, _ := strings.Cut(read(t, file), "\n"+name+"=")
		line, _, _ := strings.Cut(rest, "\n")
		return strings.Fields(line)
	}
	statuses := func(name string) (out []int) {
		for _, s := range key(name) {
			n, err := strconv.Atoi(s)
			testkit.Must(t, err)
			out = append(out, n)
		}
		return out
	}
	return launch{key("ExecStart"), statuses("SuccessExitStatus"), statuses("RestartPreventExitStatus")}
}

// manifest reads one strictly: a field that the type has not is an error.
func manifest(t *testing.T, file string, into any) {
	t.Helper()
	testkit.Must(t, yaml.UnmarshalStrict([]byte(read(t, file)), into))
}

func pod(t *testing.T, spec corev1.PodSpec) []string {
	t.Helper()
	env := func(name string) bool {
		return slices.ContainsFunc(spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == name })
	}
	if len(spec.Containers) != 1 || spec.Containers[0].Image == "" || !env("REDLOCK_NODES") || !env("REDLOCK_USER") || !env("REDLOCK_PASSWORD") {
		t.Fatalf("got %+v; want one container, its image, its nodes and their credentials", spec)
	}
	return append(spec.Containers[0].Command, spec.Containers[0].Args...)
}

func launches(t *testing.T) map[string]launch {
	t.Helper()
	var job batchv1.CronJob
	manifest(t, "kubernetes/report.yaml", &job)
	report := job.Spec.JobTemplate.Spec
	rule := report.PodFailurePolicy.Rules[0]
	if job.Kind != "CronJob" || job.APIVersion != batchv1.SchemeGroupVersion.String() || len(job.Name) > 52 ||
		report.Template.Spec.RestartPolicy != corev1.RestartPolicyNever || // a failure policy asks for it
		rule.Action != batchv1.PodFailurePolicyActionFailJob || rule.OnExitCodes.Operator != batchv1.PodFailurePolicyOnExitCodesOpIn {
		t.Errorf("got %+v; want a CronJob whose policy names statuses", job)
	}
	cron := launch{args: pod(t, report.Template.Spec), done: []int{0}}
	for _, n := range rule.OnExitCodes.Values {
		cron.final = append(cron.final, int(n))
	}
	var orders appsv1.Deployment
	manifest(t, "kubernetes/orders.yaml", &orders)
	if orders.Kind != "Deployment" || orders.APIVersion != appsv1.SchemeGroupVersion.String() || orders.Spec.Selector.MatchLabels["app"] != orders.Spec.Template.Labels["app"] {
		t.Errorf("got %+v; want a Deployment that selects its pods", orders)
	}
	return map[string]launch{
		"systemd/redlock-report.service": unit(t, "systemd/redlock-report.service"),
		"systemd/redlock-orders.service": unit(t, "systemd/redlock-orders.service"),
		"kubernetes/report.yaml":         cron,
		"kubernetes/orders.yaml":         {args: pod(t, orders.Spec.Template.Spec), final: final}, // a Deployment has no policy
	}
}

// final are the statuses of docs/COMMAND.md that another start brings again.
var final = []int{64, 78, 126, 127}

// hung is the status of a command that --max-hold ended.
const hung = 123

// The two processes that start as a unit or a manifest says, on one machine here, do the
// work one after the other, and end with statuses that it knows.
func TestUnitsAndManifestsStartOneAtATime(t *testing.T) {
	servers := locktest.NeedMasters(t, 3, redisserver.Config{})
	nodes := strings.Join(locktest.Addresses(servers), "\n")
	dir := t.TempDir()
	redlock := filepath.Join(dir, "redlock")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", redlock, "github.com/quorumkit/redlock/cmd/redlock").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "nodes"), []byte(nodes), 0o600))
	for file, l := range launches(t) {
		t.Run(file, func(t *testing.T) {
			want := slices.Clone(final)
			if slices.Contains(l.args, "--max-hold") {
				want = slices.Insert(want, 2, hung)
			}
			if !slices.Equal(l.final, want) {
				t.Errorf("got %v as the statuses after which it is not started again; want %v", l.final, want)
			}
			work := filepath.Join(t.TempDir(), "work")
			// Each says that it began, and works until it is told to end.
			script := "#!/bin/sh\ntrap 'rmdir $0.alone; trap - TERM; kill $$' TERM\nmkdir $0.alone || echo two >>$0.ran\necho ran >>$0.ran\nuntil test -e $0.end; do sleep 0.02; done\nrmdir $0.alone\n"
			testkit.Must(t, os.WriteFile(work, []byte(script), 0o700))
			ran := func() string { b, _ := os.ReadFile(work + ".ran"); return string(b) }
			args := slices.Clone(l.args)
			for i, a := range args {
				args[i] = regexp.MustCompile(`^/usr/local/bin/\w+$`).ReplaceAllString(strings.NewReplacer("/etc/redlock.nodes", filepath.Join(dir, "nodes"), "60s", "1s").Replace(a), work)
			}
			args = slices.Insert(args, 2, "--prefix", t.Name()+":")
			args[0] = redlock
			start := func() *exec.Cmd {
				cmd := exec.CommandContext(context.WithoutCancel(t.Context()), args[0], args[1:]...)
				cmd.Env = append(os.Environ(), "REDLOCK_NODES="+strings.ReplaceAll(nodes, "\n", ","))
				cmd.Stderr = t.Output()
				testkit.Must(t, cmd.Start())
				return cmd
			}
			status := func(cmd *exec.Cmd) int {
				var ended *exec.ExitError
				if err := cmd.Wait(); err != nil && !errors.As(err, &ended) {
					t.Fatal(err)
				}
				return cmd.ProcessState.ExitCode()
			}
			first := start()
			testkit.Eventually(t, "the first works", func() bool { return ran() == "ran\n" })
			second := start()
			if l.args[1] == "exec" {
				if got := status(second); got != l.done[0] {
					t.Errorf("the second: got status %d; want %d, which counts as done", got, l.done[0])
				}
			} else { // as systemd and Kubernetes stop it
				testkit.Must(t, first.Process.Signal(syscall.SIGTERM))
				testkit.Eventually(t, "the second leads", func() bool { return ran() == "ran\nran\n" })
				if got := status(first); got != 143 || l.done != nil && !slices.Contains(l.done, got) {
					t.Errorf("the first: got status %d; want 143, one of %d, which count as done", got, l.done)
				}
				first = second
			}
			testkit.Must(t, os.WriteFile(work+".end", nil, 0o600))
			if got := status(first); got != 0 || strings.Contains(ran(), "two") {
				t.Errorf("got status %d, and %q; want 0, and one at a time", got, ran())
			}
		})
	}
}

// A report that hangs is ended by the unit's --max-hold, here of four seconds, before systemd's own
// limit, and is not started again before the timer's next.
func TestTheTimersUnitEndsAReportThatHangs(t *testing.T) {
	const file = "systemd/redlock-report.service"
	servers := locktest.NeedMasters(t, 3, redisserver.Config{})
	dir := t.TempDir()
	redlock := filepath.Join(dir, "redlock")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", redlock, "github.com/quorumkit/redlock/cmd/redlock").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	nodes, report := filepath.Join(dir, "nodes"), filepath.Join(dir, "report")
	testkit.Must(t, os.WriteFile(nodes, []byte(strings.Join(locktest.Addresses(servers), "\n")), 0o600))
	testkit.Must(t, os.WriteFile(report, []byte("#!/bin/sh\necho began >$0.began\nexec sleep 600\n"), 0o700))
	l := unit(t, file)
	bound := l.args[slices.Index(l.args, "--max-hold")+1]
	held, err := time.ParseDuration(bound)
	testkit.Must(t, err)
	limit, err := time.ParseDuration(regexp.MustCompile(`(?m)^TimeoutStartSec=(\d+m)in$`).FindStringSubmatch(read(t, file))[1])
	testkit.Must(t, err)
	if limit < held+30*time.Second {
		t.Errorf("got TimeoutStartSec %v with --max-hold %v; want half a minute more", limit, held)
	}
	line := strings.NewReplacer("/usr/local/bin/redlock", redlock, "/usr/local/bin/report", report, "/etc/redlock.nodes", nodes, bound, "6s", "60s", "1s").Replace(strings.Join(l.args, " "))
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "exec "+line).CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != hung || !slices.Contains(l.final, hung) {
		t.Errorf("got %v: %s; want exit status %d, after which it is not started again", err, out, hung)
	}
	if _, err := os.Stat(report + ".began"); err != nil {
		t.Errorf("the report did not begin: %v", err)
	}
}

// systemd-analyze tells of a key that it does not know, and ends with 0.
func TestSystemdKnowsTheUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	files, err := filepath.Glob("../systemd/*")
	if err != nil || len(files) != 3 {
		t.Fatalf("got %q, %v; want three", files, err)
	}
	dir, args := t.TempDir(), []string{"verify", "--man=no"}
	for _, file := range files {
		text := regexp.MustCompile(`/usr/local/bin/\w+`).ReplaceAllString(read(t, "systemd/"+filepath.Base(file)), "/bin/true") // it looks for them
		args = append(args, filepath.Join(dir, filepath.Base(file)))
		testkit.Must(t, os.WriteFile(args[len(args)-1], []byte(text), 0o600))
	}
	if out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("got %v:\n%s", err, out)
	}
}
