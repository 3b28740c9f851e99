package node

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// PoolSize is the most connections to one node: the writer needs one, and
	// what Inspect, Check and a verification do beside it a few more.
	PoolSize = 8
	// DialShare is how many node timeouts a connection may take to come up: it is
	// several round trips, with TLS more.
	DialShare = 4
	// idleTime is how long a connection may lie in the pool. Networks forget one after
	// four to six minutes of silence, and the pool does not see that.
	idleTime = 3 * time.Minute
)

// URLForms are the ways to write a node.
const URLForms = "redis://host:port (with user:password@ before the host), rediss://, unix:///path, or host:port"

// ParseURL reads one URL, or a bare host:port. No part of one that does not parse is
// in the error: it may hold a password.
func ParseURL(u string) (*redis.Options, error) {
	switch {
	case u == "":
		return nil, errors.New("it is empty: give " + URLForms)
	case !strings.Contains(u, "://"):
		host, port, err := net.SplitHostPort(u)
		if err != nil || host == "" || strings.Contains(u, "@") {
			return nil, errors.New("without a scheme, give host:port")
		}
		return &redis.Options{Addr: u}, checkPort(port)
	}
	o, err := redis.ParseURL(u)
	if err != nil || strings.Contains(u, "#") { // the rest of a password, likely, and its first part a port
		return nil, errors.New("it does not parse (not shown, it may hold a password): give " + URLForms)
	}
	if _, port, err := net.SplitHostPort(o.Addr); err == nil && o.Network != "unix" {
		return o, checkPort(port)
	}
	return o, nil
}

// checkPort refuses a number that is no port's. A name may be that of a service.
func checkPort(port string) error {
	if n, err := strconv.Atoi(port); err == nil && (n < 1 || n > 65535) {
		return errors.New("its port is out of range: give 1 to 65535")
	}
	return nil
}

// Harden sets what go-redis leaves open to a hung or refusing node: a command is
// sent once, and is bounded by the node timeout.
func Harden(o *redis.Options, timeout time.Duration) {
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = DialShare * timeout
	o.ReadTimeout, o.WriteTimeout = timeout, timeout
	o.ContextTimeoutEnabled = true
	o.PoolSize, o.MinIdleConns = PoolSize, 1
	o.PoolTimeout, o.ConnMaxIdleTime = timeout, idleTime
	// Otherwise pipelines have a pool of their own, of ten more connections with
	// 256 KiB each; and one that can't be dialled is dialled again for the other
	// pool, so that a node that can't be reached takes twice as long to say so.
	o.PipelinePoolSize = -1
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
