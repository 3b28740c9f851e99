package contenders

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/google/uuid"
)

var memcachedSpec = spec{
	name: "memcached, add with expiry", module: "github.com/bradfitz/gomemcache", servers: "1 server, in memory",
	fence: "CAS id, until the server restarts", notice: "nobody; a `get` can be sent",
	start: startMemcached, open: openMemcached,
}

// memcachedExpiry is the lease in its whole seconds, and one more: its clock ticks once
// a second, and an item may end that much early.
const memcachedExpiry = int32(lease/time.Second) + 1

func startMemcached(ctx context.Context) (*system, error) {
	program, err := lookFor("memcached", "memcached")
	if err != nil {
		return nil, err
	}
	s, err := newSystem("memcached")
	if err != nil {
		return nil, err
	}
	ports, err := s.freePorts(1)
	if err != nil {
		s.close()
		return nil, err
	}
	if err := s.unprivileged(); err != nil {
		s.close()
		return nil, err
	}
	s.add(&proc{path: program, address: local(ports[0]), clock: true, args: []string{
		"--listen=127.0.0.1", fmt.Sprintf("--port=%d", ports[0]), "--udp-port=0", "--memory-limit=16", "--threads=1",
	}})
	if said, err := exec.CommandContext(ctx, program, "--version").Output(); err == nil { //nolint:gosec // from PATH
		s.version = strings.TrimSpace(string(said))
	}
	return s.begin(ctx, func(ctx context.Context, addrs []string) error {
		c := memcachedClientOf(ctx, addrs)
		defer func() { _ = c.Close() }()
		return c.Ping()
	})
}

// memcachedClientOf is the client with a timeout that a loaded machine keeps.
func memcachedClientOf(_ context.Context, addrs []string) *memcache.Client {
	c := memcache.New(addrs...)
	c.Timeout = time.Second
	c.DialContext = (&net.Dialer{Timeout: time.Second}).DialContext
	return c
}

type memcachedLocks struct{ client *memcache.Client }

func openMemcached(ctx context.Context, addrs []string) (client, error) {
	return memcachedLocks{memcachedClientOf(ctx, addrs)}, nil
}

func (c memcachedLocks) acquire(ctx context.Context, name string) (lock, error) {
	owner := uuid.NewString()
	_, sent, err := poll(ctx, func() (struct{}, bool, error) {
		err := c.client.Add(&memcache.Item{Key: name, Value: []byte(owner), Expiration: memcachedExpiry})
		return struct{}{}, errors.Is(err, memcache.ErrNotStored), err
	})
	if err != nil {
		return nil, err
	}
	l := &memcachedLock{client: c.client, name: name, owner: owner}
	if item, err := l.own(); err == nil {
		l.cas = item.CasID
	}
	l.renewed = renew(sent, byRenewal, func(context.Context) error { return l.set(memcachedExpiry) })
	return l, nil
}

func (c memcachedLocks) close() error { return c.client.Close() }

type memcachedLock struct {
	*renewed
	client      *memcache.Client
	name, owner string
	cas         uint64 // of the item as it was added
}

func (l *memcachedLock) fence() string { return fmt.Sprint(l.cas) }

// own is the item, if it is this holder's.
func (l *memcachedLock) own() (*memcache.Item, error) {
	item, err := l.client.Get(l.name)
	switch {
	case errors.Is(err, memcache.ErrCacheMiss):
		return nil, errNotHeld
	case err != nil:
		return nil, err
	case string(item.Value) != l.owner:
		return nil, errNotHeld
	}
	return item, nil
}

// set gives the item another expiry, if it is this holder's; in the past: it removes it.
func (l *memcachedLock) set(expiry int32) error {
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

func (l *memcachedLock) ask(context.Context) (bool, error) {
	_, err := l.own()
	if errors.Is(err, errNotHeld) {
		return false, nil
	}
	return err == nil, err
}

func (l *memcachedLock) release(context.Context) error {
	l.end()
	return l.set(-1)
}
