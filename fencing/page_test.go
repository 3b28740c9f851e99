package fencing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
	"github.com/quorumkit/redlock/redlocktest"
)

// payInRedis and payAsSharer are docs/FENCING.md's.
func payInRedis(ctx context.Context, client redis.UniversalClient, lock *redlock.Lock) error {
	guard := fencing.NewRedis(client) // the target, which is none of the lock's nodes
	err := guard.Do(ctx, "invoice:7", lock.Token(), "HSET", "invoices", "7", "paid").Err()
	return err
}

func payAsSharer(ctx context.Context, guard *fencing.Memory, token redlock.Token, write func(context.Context) error) error {
	ctx, err := fencing.NewSharedContext(ctx, "invoice:7", token) // what a lock's own context says by itself
	if err != nil {
		return err
	}
	err = guard.Write(ctx, "invoice:7", token, write)
	return err
}

func TestTheGuardsOfThePageRefuseWhoIsLate(t *testing.T) {
	t.Parallel()
	target := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: target.Addr()})
	defer func() { _ = client.Close() }()
	nodes := redlocktest.Start(t, 3)
	locker, err := redlock.New(nodes.Clients(), redlock.WithNodeNames(nodes.Names()...), redlock.WithNodeTimeout(2*time.Second))
	testkit.Must(t, err)
	defer func() { _ = locker.Close() }()
	var locks [2]*redlock.Lock
	for i := range locks {
		if locks[i], err = locker.Acquire(t.Context(), "invoice:7"); err != nil {
			t.Fatal(err)
		}
		testkit.Must(t, locks[i].Release(t.Context()))
	}
	if err := payInRedis(t.Context(), client, locks[1]); err != nil || target.HGet("invoices", "7") != "paid" {
		t.Errorf("the newest holder: got %v", err)
	}
	if err := payInRedis(t.Context(), client, locks[0]); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("one before it: got %v; want it refused", err)
	}

	var guard fencing.Memory
	write := func(context.Context) error { return nil }
	for _, token := range []redlock.Token{43, 42} { // two that share it, in either order
		if err := payAsSharer(t.Context(), &guard, token, write); err != nil {
			t.Errorf("a sharer with %d: got %v", token, err)
		}
	}
	if err := guard.Write(t.Context(), "invoice:7", 42, write); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("the same token of one alone: got %v; want it refused", err)
	}
}
