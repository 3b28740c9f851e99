package contenders

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/google/uuid"
)

// memcachedExpiry is the lease in its whole seconds, and one more: its clock ticks once
// a second, and an item may end that much early.
const memcachedExpiry = int32(lease/time.Second) + 1

var memcachedServer = kind{
	words: "1 server, in memory", label: "memcached", nodes: 1, ports: 1, clock: true,
	find: installed("memcached", "memcached", ""),
	args: func(s *system, i int) []string {
		return []string{"--listen=127.0.0.1", fmt.Sprint("--port=", s.port(i, 0)), "--udp-port=0", "--memory-limit=16", "--threads=1"}
	},
	ready: func(ctx context.Context, s *system) error {
		return expect(ctx, s.addrs()[0], "version\r\nquit\r\n", "VERSION")
	},
}

// openMemcached opens a client whose timeout a loaded machine can keep.
func openMemcached(_ context.Context, addrs []string) (acquirer, error) {
	c := memcache.New(addrs...)
	c.Timeout = time.Second
	c.DialContext = (&net.Dialer{Timeout: time.Second}).DialContext
	return func(ctx context.Context, name string) (*lock, error) {
		m := memcachedLock{c, name, uuid.NewString()}
		_, sent, err := poll(ctx, func() (struct{}, bool, error) {
			err := c.Add(&memcache.Item{Key: name, Value: []byte(m.owner), Expiration: memcachedExpiry})
			return struct{}{}, errors.Is(err, memcache.ErrNotStored), err
		})
		if err != nil {
			return nil, err
		}
		item, asked := m.own()
		l := renew(sent, byRenewal, func(context.Context) error { return m.set(memcachedExpiry) }).lock(
			func(context.Context) (bool, error) {
				_, err := m.own()
				return answer(err)
			},
			func(context.Context) error { return m.set(-1) })
		if asked == nil {
			l.fence = fmt.Sprint(item.CasID) // of the item as it was added
		}
		return l, nil
	}, nil
}

type memcachedLock struct {
	client      *memcache.Client
	name, owner string
}

// own is the item, if it is this holder's.
func (l memcachedLock) own() (*memcache.Item, error) {
	item, err := l.client.Get(l.name)
	if errors.Is(err, memcache.ErrCacheMiss) || err == nil && string(item.Value) != l.owner {
		return nil, errNotHeld
	}
	return item, err
}

// set gives the item another expiry, if it is this holder's; in the past: it removes it.
func (l memcachedLock) set(expiry int32) error {
	item, err := l.own()
	if err != nil {
		return err
	}
	item.Expiration = expiry
	err = l.client.CompareAndSwap(item)
	if errors.Is(err, memcache.ErrCASConflict) || errors.Is(err, memcache.ErrNotStored) || errors.Is(err, memcache.ErrCacheMiss) {
		return errNotHeld
	}
	return err
}
