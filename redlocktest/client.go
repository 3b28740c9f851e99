package redlocktest

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// poolSize is above any concurrency a test has. A caller of go-redis that
	// has to wait for a connection does so on a timer out of a pool that is
	// shared by the whole process, and the second synctest bubble that meets
	// such a timer dies. It is also the number of failed dials after which
	// go-redis refuses to dial for up to a second.
	poolSize = 1024

	// pipelineBuffer replaces 128 KiB a connection: a simulation has hundreds.
	pipelineBuffer = 16 << 10

	// clientTimeout bounds a call to a node that hangs, where the caller has
	// no bound of his own. It is well above the node timeout of a Locker, and above
	// the 2 s and more that a script's first load took, with -race, where a dozen
	// processes shared a core.
	clientTimeout = 5 * time.Second

	// dialTimeout bounds a dial to a node that is stopped: a longer one is a finding
	// of Cluster.Check.
	dialTimeout = 2 * time.Second
)

// Options returns the settings of a client of this node, over connections in
// memory: nothing is sent twice, no call outlives its context's deadline, and
// nothing breaks a synctest bubble. The caller may change what it got, and
// makes a client of it with redis.NewClient, which it closes itself.
//
// For a client as go-redis makes it by default, use only the Dialer (outside
// of bubbles).
func (n *Node) Options() *redis.Options {
	return &redis.Options{
		Addr: n.name,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return n.Dial(ctx)
		},
		Protocol:                2, // RESP3 looks for push messages before each reply
		DisableIdentity:         true,
		MaxRetries:              -1,
		DialerRetries:           1,
		DialTimeout:             dialTimeout,
		ReadTimeout:             clientTimeout,
		WriteTimeout:            clientTimeout,
		ContextTimeoutEnabled:   true,
		PoolSize:                poolSize,
		PipelinePoolSize:        poolSize,
		ReadBufferSize:          pipelineBuffer,
		WriteBufferSize:         pipelineBuffer,
		PipelineReadBufferSize:  pipelineBuffer,
		PipelineWriteBufferSize: pipelineBuffer,
		// Otherwise it looks up the address to find out whose network it is.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
