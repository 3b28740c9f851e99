package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumkit/redlock"
)

// rueidisPrefix is the default prefix of rueidislock's keys: prefix:number:name.
const rueidisPrefix = "rueidislock"

// rueidisLocks is rueidislock with a majority of so many keys. By itself it keeps
// them in one deployment; over five masters its ClientBuilder lays key i on master
// i, so that it pays for five as the others do.
type rueidisLocks struct{ locker rueidislock.Locker }

// openRueidis opens it over all masters of the env; over one it has three keys there,
// which is how it comes.
func openRueidis(_ context.Context, e *env) (contender, error) {
	return newRueidis(e, max(len(e.addrs)/2+1, 2))
}

// openRueidisAlone opens it over one master with three keys, where its users run it.
func openRueidisAlone(_ context.Context, e *env) (contender, error) {
	alone := *e
	alone.addrs = e.addrs[:1]
	return newRueidis(&alone, 2)
}

// openRueidisOneKey opens it with one key: what it can do at the best.
func openRueidisOneKey(_ context.Context, e *env) (contender, error) { return newRueidis(e, 1) }

func newRueidis(e *env, majority int) (contender, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: e.addrs[:1], ForceSingleClient: true},
		KeyPrefix:      rueidisPrefix,
		KeyValidity:    ttl,
		KeyMajority:    int32(majority), //nolint:gosec // three of five
		NoLoopTracking: true,
		TryNextAfter:   redlock.DefaultNodeTimeout, // its 20 ms are less than what a loaded machine takes
		ClientBuilder: func(o rueidis.ClientOption) (rueidis.Client, error) {
			return newSpread(o, e.addrs)
		},
	})
	if err != nil {
		return nil, err
	}
	return &rueidisLocks{l}, nil
}

// spread is a rueidis client that sends each of rueidislock's keys to the master
// of its number, or to the only one.
type spread struct {
	rueidis.Client // the first master's: builds commands
	masters        []rueidis.Client
}

func newSpread(o rueidis.ClientOption, addrs []string) (*spread, error) {
	s := &spread{}
	for _, addr := range addrs {
		o.InitAddress = []string{addr}
		c, err := rueidis.NewClient(o)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.masters = append(s.masters, c)
	}
	s.Client = s.masters[0]
	return s, nil
}

// Do sends an EVALSHA or EVAL (its key is the fourth word) to the key's master.
func (s *spread) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	if len(words) < 4 {
		return s.Client.Do(ctx, cmd)
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(words[3], rueidisPrefix+":"), ":")
	i, err := strconv.Atoi(number)
	if err != nil {
		panic(fmt.Sprintf("bench: rueidislock sent %q; want a key of its own as the fourth word", words))
	}
	return s.masters[i%len(s.masters)].Do(ctx, cmd)
}

func (s *spread) Close() {
	for _, c := range s.masters {
		c.Close()
	}
}

func (r *rueidisLocks) acquire(ctx context.Context, resource string) (held, error) {
	_, cancel, err := r.locker.WithContext(ctx, resource)
	if err != nil {
		return nil, err
	}
	return rueidisLock(cancel), nil
}

func (r *rueidisLocks) close() error {
	r.locker.Close()
	return nil
}

type rueidisLock context.CancelFunc

// extend: rueidislock renews by itself and cannot be asked to.
func (l rueidisLock) extend(context.Context) error { return errUnsupported }

func (l rueidisLock) release(context.Context) error {
	l() // returns when every key is deleted
	return nil
}
