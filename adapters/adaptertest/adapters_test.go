package adaptertest

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"
	"go.uber.org/zap"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/adapters"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
	"github.com/quorumkit/redlock/redlocktest"
)

// What the real packages ask for.
var (
	_ gocron.Locker              = (*adapters.Gocron[gocron.Lock])(nil)
	_ gocron.Elector             = (*adapters.Elector)(nil)
	_ certmagic.Locker           = (*adapters.Certmagic)(nil)
	_ certmagic.TryLocker        = (*adapters.Certmagic)(nil)
	_ certmagic.LockLeaseRenewer = (*adapters.Certmagic)(nil)
	_ cron.Job                   = (*adapters.Job)(nil)
	_ certmagic.Storage          = storage{}
)

// files puts the Lock and Unlock of a FileStorage one level below storage's.
type files struct{ *certmagic.FileStorage }

// storage keeps files, and locks over Redis masters.
type storage struct {
	files
	*adapters.Certmagic
}

// lockers are those of n processes over the same nodes: servers, or in the quick tier some
// inside this process.
func lockers(t *testing.T, n int) []*redlock.Locker {
	t.Helper()
	var all []*redlock.Locker
	if !testkit.Quick() {
		servers := locktest.NeedMasters(t, 3, redisserver.Config{})
		for range n {
			all = append(all, locktest.OpenServers(t, servers, redlock.WithNodeTimeout(2*time.Second)))
		}
		return nodesReady(t, all)
	}
	nodes := redlocktest.Start(t, 5)
	for range n {
		l, err := redlock.New(nodes.NewClients(), redlock.WithNodeNames(nodes.Names()...), redlock.WithNodeTimeout(2*time.Second))
		testkit.Must(t, err)
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		all = append(all, l)
	}
	return nodesReady(t, all)
}

// nodesReady makes sure that no first contact is in what a test observes.
func nodesReady(t *testing.T, all []*redlock.Locker) []*redlock.Locker {
	t.Helper()
	for _, l := range all {
		testkit.Must(t, l.Cluster().Join(t.Context()))
	}
	return all
}

// one counts runs.
type one struct {
	runs atomic.Int64
	ran  chan struct{}
}

func newOne() *one { return &one{ran: make(chan struct{}, 1024)} }

func (o *one) work() {
	o.runs.Add(1)
	o.ran <- struct{}{}
}

// await blocks until it ran n times.
func (o *one) await(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		select {
		case <-o.ran:
		case <-ctx.Done():
			t.Fatalf("got %d runs; want %d", o.runs.Load(), n)
		}
	}
}

// Three schedulers have the same job at the same time, and one of them runs it,
// also if its Unlock comes before the others' clocks let them ask.
// All three ask at once, and each makes one attempt: none may have it the first time.
func TestGocronRunsAJobInOneOfThreeSchedulers(t *testing.T) {
	o := newOne()
	var refused sync.WaitGroup
	for _, l := range lockers(t, 3) {
		locks, err := adapters.NewGocron[gocron.Lock](l, adapters.WithMinHold(time.Hour))
		testkit.Must(t, err)
		refused.Add(refusals)
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(&counted{Locker: locks, ran: o.runs.Load, refused: &refused}))
		testkit.Must(t, err)
		t.Cleanup(func() { _ = s.Shutdown() }) // the holder keeps the lock
		if _, err := s.NewJob(gocron.DurationJob(100*time.Millisecond), gocron.NewTask(o.work), gocron.WithName("report")); err != nil {
			t.Fatal(err)
		}
		s.Start()
	}
	o.await(t, 1)
	refused.Wait()
	if got := o.runs.Load(); got != 1 {
		t.Errorf("got %d runs; want 1", got)
	}
}

// gocron runs no job whose lock is refused, and tells nobody. So a job of a name that can't be
// locked is reported, and options that refuse each acquire don't come as far as a scheduler.
func TestAJobThatGocronNeverRunsIsNoSecret(t *testing.T) {
	l := lockers(t, 1)[0]
	for _, opt := range []redlock.AcquireOption{redlock.WithMinHold(time.Second), redlock.WithTTL(time.Minute), redlock.WithLimit(1000)} {
		if _, err := adapters.NewGocron[gocron.Lock](l, adapters.WithAcquireOptions(opt)); !errors.Is(err, redlock.ErrInvalidOption) {
			t.Errorf("got %v; want ErrInvalidOption", err)
		}
	}
	reported := make(chan error, 1024)
	locks, err := adapters.NewGocron[gocron.Lock](l, adapters.WithReport(func(err error) { reported <- err }))
	testkit.Must(t, err)
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locks))
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, s.Shutdown()) })
	o := newOne()
	if _, err := s.NewJob(gocron.DurationJob(100*time.Millisecond), gocron.NewTask(o.work), gocron.WithName("redlock:report")); err != nil {
		t.Fatal(err)
	}
	s.Start()
	select {
	case err = <-reported:
	case <-time.After(time.Minute):
	}
	if !errors.Is(err, redlock.ErrInvalidResource) || o.runs.Load() != 0 {
		t.Errorf("got the report %v and %d runs; want ErrInvalidResource, and none", err, o.runs.Load())
	}
}

// refusals is how often each scheduler is to be refused after the job has run.
const refusals = 3

// counted counts down a scheduler's refusals once the job has run.
type counted struct {
	gocron.Locker

	ran     func() int64
	refused *sync.WaitGroup
	n       atomic.Int64
}

func (c *counted) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	ran := c.ran() > 0
	l, err := c.Locker.Lock(ctx, key)
	if ran && err != nil && c.n.Add(1) <= refusals {
		c.refused.Done()
	}
	return l, err
}

func TestGocronsLeaderRunsAndAnotherTakesOver(t *testing.T) {
	var electors []*adapters.Elector
	var ran []*one
	for _, l := range lockers(t, 2) {
		e, err := adapters.NewElector(l, "leader")
		testkit.Must(t, err)
		s, err := gocron.NewScheduler(gocron.WithDistributedElector(e))
		testkit.Must(t, err)
		t.Cleanup(func() { _ = s.Shutdown() })
		o := newOne()
		if _, err := s.NewJob(gocron.DurationJob(20*time.Millisecond), gocron.NewTask(o.work)); err != nil {
			t.Fatal(err)
		}
		electors, ran = append(electors, e), append(ran, o)
		s.Start()
		if len(ran) == 1 {
			o.await(t, 3) // the first leads before there is another
		}
	}
	ran[0].await(t, 3)
	if got := ran[1].runs.Load(); got != 0 {
		t.Errorf("the second ran %d times while the first led; want none", got)
	}
	// The first may be elected again: it resigns until the second leads.
	for electors[1].Token() == 0 {
		testkit.Must(t, electors[0].Resign(t.Context()))
		testkit.Must(t, t.Context().Err())
	}
	ran[1].await(t, 3)
	// The second stops for good, and the first leads again.
	testkit.Must(t, electors[1].Close())
	for before := ran[0].runs.Load(); ran[0].runs.Load() == before; {
		ran[0].await(t, 1)
	}
	if err := electors[1].IsLeader(t.Context()); !errors.Is(err, redlock.ErrClosed) {
		t.Errorf("the closed one: got %v; want ErrClosed", err)
	}
}

// A certificate is obtained by one of two instances that share a storage.
func TestCertmagicLocksItsStorage(t *testing.T) {
	dir := t.TempDir()
	var stores []storage
	for _, l := range lockers(t, 2) {
		locks, err := adapters.NewCertmagic(l)
		testkit.Must(t, err)
		stores = append(stores, storage{files{&certmagic.FileStorage{Path: dir}}, locks})
	}
	key := certmagic.StorageKeys.CertsPrefix("acme")
	testkit.Must(t, stores[0].Lock(t.Context(), key))
	if ok, err := stores[1].TryLock(t.Context(), key); ok || err != nil {
		t.Errorf("got %t, %v; want false: the other instance issues", ok, err)
	}
	got := make(chan error, 1)
	go func() {
		if err := stores[1].Lock(t.Context(), key); err != nil {
			got <- err
			return
		}
		text, err := stores[1].Load(t.Context(), key+"/cert")
		if err == nil && string(text) != "certificate" {
			err = errors.New("it is not the certificate of the other instance")
		}
		got <- errors.Join(err, stores[1].Unlock(t.Context(), key))
	}()
	testkit.Must(t, stores[0].Store(t.Context(), key+"/cert", []byte("certificate")))
	testkit.Must(t, stores[0].RenewLockLease(t.Context(), key, 15*time.Second), stores[0].Unlock(t.Context(), key), <-got)
}

// authority signs what it is asked to, once others are in line for the lock.
type authority struct {
	t       *testing.T
	lockers []*redlock.Locker
	issued  *atomic.Int64
}

func (authority) IssuerKey() string { return "authority" }

func (a authority) Issue(_ context.Context, request *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	issued := a.issued.Add(1)
	testkit.Eventually(a.t, "the others wait", func() bool {
		waiting := 0
		for _, l := range a.lockers {
			waiting += l.Stats().Acquiring
		}
		return waiting == len(a.lockers)-1 || issued > 1
	})
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(issued), DNSNames: request.DNSNames, NotAfter: time.Now().Add(time.Hour), PublicKey: public}
	der, err := x509.CreateCertificate(nil, template, template, request.PublicKey, private)
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// Three instances of certmagic with one storage want the certificate of one domain.
func TestCertmagicObtainsOneCertificateForThreeInstances(t *testing.T) {
	dir, all := t.TempDir(), lockers(t, 3)
	issuer := authority{t, all, new(atomic.Int64)}
	var instances sync.WaitGroup
	for _, l := range all {
		locks, err := adapters.NewCertmagic(l)
		testkit.Must(t, err)
		var instance *certmagic.Config
		cache := certmagic.NewCache(certmagic.CacheOptions{Logger: zap.NewNop(), GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return instance, nil }})
		t.Cleanup(cache.Stop)
		instance = certmagic.New(cache, certmagic.Config{Logger: zap.NewNop(), Issuers: []certmagic.Issuer{issuer}, Storage: storage{files{&certmagic.FileStorage{Path: dir}}, locks}})
		instances.Go(func() {
			if err := instance.ObtainCertSync(t.Context(), "example.com"); err != nil {
				t.Error(err)
			} else if c, err := instance.CacheManagedCertificate(t.Context(), "example.com"); err != nil || c.Leaf.SerialNumber.Int64() != 1 {
				t.Errorf("got certificate %v, %v; want the first", c.Names, err)
			}
		})
	}
	instances.Wait()
	if got := issuer.issued.Load(); got != 1 {
		t.Errorf("got %d certificates issued; want 1", got)
	}
}

func TestCronRunsAJobInOneOfTwoProcesses(t *testing.T) {
	o, asked := newOne(), newOne()
	for _, l := range lockers(t, 2) {
		alone, err := adapters.NewCron[cron.Job](l, "every-second", adapters.WithMinHold(time.Hour))
		testkit.Must(t, err)
		after := func(inner cron.Job) cron.Job {
			return cron.FuncJob(func() { inner.Run(); asked.work() })
		}
		c := cron.New()
		c.Schedule(cron.Every(time.Second), cron.NewChain(after, alone).Then(cron.FuncJob(o.work)))
		c.Start()
		t.Cleanup(func() { <-c.Stop().Done() })
	}
	asked.await(t, 4)
	if got := o.runs.Load(); got != 1 {
		t.Errorf("got %d runs; want 1 within the hour", got)
	}
}

// Each has a lock of its own: both run at every tick.
func TestTwoJobsOfOneCronBothRun(t *testing.T) {
	locker := lockers(t, 1)[0]
	c := cron.New()
	var jobs []*one
	for _, name := range []string{"report", "cleanup"} {
		alone, err := adapters.NewCron[cron.Job](locker, name, adapters.WithReport(func(err error) { t.Error(err) }))
		testkit.Must(t, err)
		o := newOne()
		if _, err := c.AddJob("@every 1s", cron.NewChain(alone).Then(cron.FuncJob(o.work))); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, o)
	}
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
	for range 2 {
		for _, o := range jobs {
			o.await(t, 1)
		}
	}
	if got := jobs[0].runs.Load() - jobs[1].runs.Load(); got < -1 || got > 1 {
		t.Errorf("one ran %d times more often than the other; want them at the same ticks", got)
	}
}

// The wrapper of a whole cron: it says so before anything runs.
func TestAWrapperOfAWholeCronPanicsAtItsSecondJob(t *testing.T) {
	alone, err := adapters.NewCron[cron.Job](lockers(t, 1)[0], "report")
	testkit.Must(t, err)
	c := cron.New(cron.WithChain(alone))
	c.Schedule(cron.Every(time.Second), cron.FuncJob(func() {}))
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, redlock.ErrInvalidOption) {
			t.Errorf("got a panic of %v; want ErrInvalidOption", err)
		}
	}()
	c.Schedule(cron.Every(time.Second), cron.FuncJob(func() {}))
	t.Error("got a cron with two jobs of one lock; want a panic")
}

func TestThePagesJobsAreAdded(t *testing.T) {
	if err := addJobs(lockers(t, 1)[0], func() {}, cron.FuncJob(func() {})); err != nil {
		t.Error(err)
	}
}

// addJobs is the code of docs/GETTING-STARTED.md and docs/MIGRATION.md.
func addJobs(locker *redlock.Locker, runReport func(), report cron.Job) error {
	locks, err := adapters.NewGocron[gocron.Lock](locker, adapters.WithMinHold(30*time.Second))
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locks))
	if err != nil {
		return err
	}
	_, err = scheduler.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(runReport), gocron.WithName("hourly-report"))
	if err != nil {
		return err
	}
	defer func() { _ = scheduler.Shutdown() }()

	alone, err := adapters.NewCron[cron.Job](locker, "nightly-report", adapters.WithMinHold(30*time.Second))
	if err != nil {
		return err
	}
	c := cron.New()
	_, err = c.AddJob("@daily", cron.NewChain(alone).Then(report))
	return err
}

func TestThePagesSchedulerHasAnElector(t *testing.T) {
	if err := electScheduler(lockers(t, 1)[0]); err != nil {
		t.Error(err)
	}
}

// electScheduler is the code of docs/MIGRATION.md.
func electScheduler(locker *redlock.Locker) error {
	elector, err := adapters.NewElector(locker, "scheduler")
	if err != nil {
		return err
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		return err
	}
	return errors.Join(scheduler.Shutdown(), elector.Close())
}
