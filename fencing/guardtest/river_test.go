package guardtest_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/internal/testkit/locktest"
)

// addition is a job that adds one to a number, by reading it first.
type addition struct {
	Late bool `json:"late"` // at the first attempt another holder writes before it
}

func (addition) Kind() string { return "addition" }

// adder does jobs of River in one process.
type adder struct {
	river.WorkerDefaults[addition]

	*invoices
	locker *redlock.Locker
	others *redlock.Locker
}

func (a *adder) Work(ctx context.Context, job *river.Job[addition]) error {
	return a.locker.Do(ctx, invoice, func(ctx context.Context, lock *redlock.Lock) error {
		read := a.read(ctx)
		if job.Args.Late && job.Attempt == 1 {
			if err := lock.Release(ctx); err != nil { // as if it had been lost
				return err
			}
			ctx = context.WithoutCancel(ctx) // and nobody looked
			if err := a.others.Do(ctx, invoice, func(ctx context.Context, newer *redlock.Lock) error {
				return a.add(ctx, newer.Token(), a.read(ctx), nil)
			}); err != nil {
				return err
			}
		}
		return a.add(ctx, lock.Token(), read, func(tx pgx.Tx) error {
			_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
			return err
		})
	})
}

func (a *adder) read(ctx context.Context) (n int) {
	_ = a.pool.QueryRow(ctx, "SELECT state::int FROM invoices WHERE id = 7").Scan(&n) // it shows in the sum
	return n
}

// add checks, writes and, if asked to, completes the job, in one transaction.
func (a *adder) add(ctx context.Context, token redlock.Token, read int, complete func(pgx.Tx) error) error {
	return a.guard.Retry(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
			if err := checkPGX(ctx, tx, a.guard, invoice, token); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "UPDATE invoices SET state = $1 WHERE id = 7", strconv.Itoa(read+1)); err != nil || complete == nil {
				return err
			}
			return complete(tx)
		})
	})
}

// NextRetry is at once.
func (*adder) NextRetry(*river.Job[addition]) time.Time { return time.Now() }

// Jobs of two River clients add to a number under one lock, and none is lost. A job whose
// lock was lost while a newer holder wrote is refused with its completion, and River tries
// it again.
func TestJobsOfRiverAreGuarded(t *testing.T) {
	const jobs = 16
	i := openInvoices(t)
	i.exec(t, "UPDATE invoices SET state = '0'")
	driver := riverpgxv5.New(i.pool)
	migrator, err := rivermigrate.New(driver, nil)
	testkit.Must(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	testkit.Must(t, err)
	servers := locktest.NeedMasters(t, 3, redisserver.Config{})
	others := locktest.OpenServers(t, servers)
	var clients []*river.Client[pgx.Tx]
	var done sync.WaitGroup
	done.Add(jobs)
	failed := make(chan *rivertype.JobRow, 4*jobs)
	for range 2 {
		a := &adder{invoices: i, locker: locktest.OpenServers(t, servers), others: others}
		workers := river.NewWorkers()
		river.AddWorker(workers, a)
		c, err := river.NewClient(driver, &river.Config{
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}, Workers: workers,
			FetchCooldown: time.Millisecond, FetchPollInterval: 10 * time.Millisecond,
		})
		testkit.Must(t, err)
		events, cancel := c.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
		t.Cleanup(cancel)
		go func() {
			for e := range events {
				if e.Kind == river.EventKindJobFailed {
					failed <- e.Job
				} else {
					done.Done()
				}
			}
		}()
		testkit.Must(t, c.Start(context.WithoutCancel(t.Context())))
		t.Cleanup(func() { testkit.Must(t, c.Stop(context.WithoutCancel(t.Context()))) })
		clients = append(clients, c)
	}
	for n := range jobs {
		_, err := clients[n%2].Insert(t.Context(), addition{Late: n == jobs/2}, nil)
		testkit.Must(t, err)
	}
	all := make(chan struct{})
	go func() { done.Wait(); close(all) }()
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Fatalf("not all jobs were completed within a minute; %d failed attempts", len(failed))
	}
	if got := i.state(t); got != strconv.Itoa(jobs+1) {
		t.Errorf("the sum is %s; want %d, with the newer holder's", got, jobs+1)
	}
	if len(failed) != 1 {
		t.Fatalf("got %d failed attempts; want the late one's", len(failed))
	}
	late := <-failed
	row, err := clients[0].JobGet(t.Context(), late.ID)
	testkit.Must(t, err)
	locktest.WantText(t, "the first attempt", row.Errors[0].Error, fencing.ErrStale.Error())
	if row.State != rivertype.JobStateCompleted || row.Attempt != 2 {
		t.Errorf("got %s at attempt %d; want it completed at the second", row.State, row.Attempt)
	}
}
