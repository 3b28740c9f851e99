package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

// inProcess is how many masters there are where none are given.
const inProcess = 5

// masters are what the lock is held over, with a Locker for each worker.
type masters struct {
	count   int
	kind    string
	cluster *redlocktest.Cluster // nil: the servers are not ours
	workers []*redlock.Locker
}

// newMasters connects two workers to the servers of list, or to masters inside
// this process where list is empty.
func newMasters(ctx context.Context, list string) (*masters, error) {
	m := &masters{}
	connect := m.open(ctx, list)
	if list == "" {
		var err error
		if m.cluster, err = redlocktest.Run(inProcess); err != nil {
			return nil, err
		}
		m.count, m.kind = inProcess, "inside this process"
		connect = func(opts ...redlock.Option) (*redlock.Locker, error) {
			return redlock.New(m.cluster.NewClients(), append(opts, redlock.WithNodeNames(m.cluster.Names()...))...)
		}
	}
	for i := range 2 {
		worker, err := connect(redlock.WithTTL(ttl), redlock.WithHolder(fmt.Sprintf("worker %d", i+1)),
			redlock.WithCloseTimeout(2*ttl)) // what the masters that were lost may hold ends by itself meanwhile
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.workers = append(m.workers, worker)
	}
	return m, nil
}

// open is how a worker connects to the servers of list.
func (m *masters) open(ctx context.Context, list string) func(...redlock.Option) (*redlock.Locker, error) {
	urls := strings.Split(list, ",")
	for i, u := range urls {
		urls[i] = strings.TrimSpace(u)
	}
	m.count, m.kind = len(urls), "from REDLOCK_NODES"
	return func(opts ...redlock.Option) (*redlock.Locker, error) { return redlock.Open(ctx, urls, opts...) }
}

// join waits until every master that answers votes. Servers that are new, or that
// returned, wait for every lease that they may have forgotten.
func (m *masters) join(ctx context.Context, show func(string, ...any)) error {
	cluster := m.workers[0].Cluster()
	s, err := cluster.Status(ctx)
	if err != nil {
		return err
	}
	if s.Votes() < len(s.Nodes) {
		show("%d of %d masters vote; the others wait %v first, or for `redlock nodes admit`", s.Votes(), len(s.Nodes), redlock.DefaultMaxTTL)
	}
	return cluster.Join(ctx)
}

// lose kills two masters, where they are ours, and says so.
func (m *masters) lose() string {
	if m.cluster == nil {
		return "no master is killed: these are yours"
	}
	killed := m.cluster.Nodes()[:2]
	for _, n := range killed {
		n.Stop()
	}
	return fmt.Sprintf("%s and %s are killed", killed[0].Name(), killed[1].Name())
}

// close ends the workers, and the masters that are ours.
func (m *masters) close() error {
	var errs []error
	for _, w := range m.workers {
		errs = append(errs, w.Close())
	}
	if m.cluster != nil {
		errs = append(errs, m.cluster.Close())
	}
	return errors.Join(errs...)
}
