// Command prometheus shows what a Locker does at /metrics, made of Locker.Stats.
//
//	cd examples/prometheus && go run . [-listen :9464]
//
// REDLOCK_NODES=host:port,... makes it use masters of yours; without it, three are in
// its own process. It takes and releases a few locks, to have something to show. It
// is a module of its own: the importers of redlock do not inherit Prometheus.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlocktest"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9464", "address of /metrics")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *listen, func(address string) { fmt.Printf("http://%s/metrics\n", address) })
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run works and shows its metrics until ctx is done. listening is told the address.
func run(ctx context.Context, listen string, listening func(address string)) (err error) {
	locker, done, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector{locker}); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	listening(l.Addr().String())
	work(ctx, locker)
	return errors.Join(server.Close(), ignoreClosed(<-served))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// open returns a Locker over REDLOCK_NODES, or over masters in this process.
func open(ctx context.Context) (_ *redlock.Locker, done func() error, _ error) {
	nodes := strings.FieldsFunc(os.Getenv("REDLOCK_NODES"), func(r rune) bool { return r == ',' })
	closing := func() error { return nil }
	if len(nodes) == 0 {
		cluster, err := redlocktest.Run(3, redlocktest.WithTCP())
		if err != nil {
			return nil, nil, err
		}
		nodes, closing = cluster.URLs(), cluster.Close
	}
	locker, err := redlock.Open(ctx, nodes, redlock.WithNodeTimeout(time.Second))
	if err != nil {
		return nil, nil, errors.Join(err, closing())
	}
	return locker, func() error { return errors.Join(locker.Close(), closing()) }, nil
}

// work takes and releases locks until ctx is done, two of three goroutines the same
// one.
func work(ctx context.Context, locker *redlock.Locker) {
	var workers sync.WaitGroup
	for g := range 3 {
		name := fmt.Sprintf("orders/%d", g/2)
		workers.Go(func() {
			for ctx.Err() == nil {
				err := locker.Do(ctx, name, func(ctx context.Context, _ *redlock.Lock) error {
					doze(ctx, rand.N(20*time.Millisecond))
					return nil
				})
				if err != nil && ctx.Err() == nil {
					log.Print(err)
				}
				doze(ctx, 10*time.Millisecond)
			}
		})
	}
	workers.Wait()
}

// doze does nothing for a while, or until ctx is done.
func doze(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
