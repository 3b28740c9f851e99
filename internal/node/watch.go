package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/fault"
)

// Why a client is no node. New says so where it can see it. Inside a wrapper only the
// client's connection tells. No option admits Sentinel clients: a promoted server is blank
// with all that it has, so each promotion would be a rejoin, which waits MaxTTL.
const (
	NotSentinel = "a Sentinel client: after a failover the node would be another server, which may lack the keys: give a client of the master itself"
	NotDatabase = "all databases of a server share its scripts, whose absence keeps a restarted server from voting: use database 0, and WithPrefix to keep names apart"
	notSeveral  = "a Ring or Cluster client: a node is one master, and these move keys to others: give a client of each master"

	// FailoverAddr is what go-redis has for the address of a Sentinel client.
	FailoverAddr = "FailoverClient"
)

// errUndialled is what a command meets on a connection to pin that would have to be
// dialled first, where only the client itself may do that. It was not sent.
var errUndialled = errors.New("not sent: its connection was not set up by the client itself")

// pinnable is the client to pin connections of. In go-redis 9.23, what Conn and Watch
// dial of a client with a StreamingCredentialsProvider panics: their connections lack
// the manager that listens for credentials. So of such a client only connections are
// pinned that it dialled itself, which are also authenticated again when the provider
// says so: what this copy, without the provider, would have to dial is errUndialled.
func pinnable(bounded *redis.Client, timeout time.Duration) *redis.Client {
	if bounded.Options().StreamingCredentialsProvider == nil {
		return bounded
	}
	pins := bounded.WithTimeout(timeout)
	o := pins.Options() // of this copy alone
	o.StreamingCredentialsProvider = nil
	o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "", errUndialled }
	return pins
}

// Watch runs f on one connection of the client, bounded by the node timeout where it can
// be. Unlike most of a Node, it may be called by anyone.
func (n *Node) Watch(ctx context.Context, f func(*redis.Tx) error) error {
	if n.conn.pins == nil {
		return n.conn.watchOther(ctx, f)
	}
	if n.Server == nil && n.conn.pins.Options().OnConnect != nil { // the program's may SELECT
		return n.conn.watch(ctx, func(tx *redis.Tx) error {
			if err := judgeConnection(ctx, tx); err != nil {
				return err
			}
			return f(tx)
		})
	}
	return n.conn.watch(ctx, f)
}

func (c *connection) watch(ctx context.Context, f func(*redis.Tx) error) error {
	for {
		err := c.pins.Watch(ctx, f)
		if !errors.Is(err, errUndialled) || ctx.Err() != nil {
			return err
		}
		if err := c.calls.Ping(ctx).Err(); err != nil && !IsReply(err) { // any command dials
			return err
		}
	}
}

// other is a client whose settings are not known.
type other struct {
	refused atomic.Pointer[error] // why it is not asked again; nil: it is
}

// watchOther is watch over a client whose settings are not known: the connection is
// judged before f.
func (c *connection) watchOther(ctx context.Context, f func(*redis.Tx) error) error {
	if refused := c.other.refused.Load(); refused != nil {
		return *refused
	}
	err := c.calls.Watch(ctx, func(tx *redis.Tx) error {
		if err := c.other.judge(ctx, tx); err != nil {
			return err
		}
		return f(tx)
	})
	if err != nil && strings.Contains(err.Error(), "Watch requires at least one key") { // by which it would choose a server
		return fmt.Errorf("%w: it is %s", fault.ErrMisconfigured, notSeveral)
	}
	return err
}

// judge is judgeConnection, and makes an error of the panic that dialling may come to:
// where a client with a StreamingCredentialsProvider is inside, go-redis panics, and
// keeps what it took from the pool. It is not asked again.
func (o *other) judge(ctx context.Context, tx *redis.Tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: the client panics where it dials for Watch (%v), as go-redis does inside a wrapper with a StreamingCredentialsProvider: "+
				"give the *redis.Client itself, or a CredentialsProviderContext", fault.ErrMisconfigured, p)
			o.refused.Store(&err)
		}
	}()
	return judgeConnection(ctx, tx)
}

// judgeConnection refuses a connection that is not to database 0 of one server. What the
// client was told to connect to stands in its words for itself; what a hook of it has
// selected since, the server says. Without the right to ask, nothing is known of that.
func judgeConnection(ctx context.Context, tx *redis.Tx) error {
	settings := tx.String() // Redis<ADDRESS db:NUMBER>
	if strings.HasPrefix(settings, "Redis<"+FailoverAddr+" ") {
		return fmt.Errorf("%w: it is %s", fault.ErrMisconfigured, NotSentinel)
	}
	info, err := tx.Do(ctx, "CLIENT", "INFO").Text()
	if err != nil && !IsReply(err) {
		return err
	}
	_, db, asked := strings.Cut(info, " db=")
	if !asked {
		_, db, _ = strings.Cut(settings, " db:")
	}
	if !strings.HasPrefix(db, "0") {
		return fmt.Errorf("%w: it is connected to another database than 0: %s", fault.ErrMisconfigured, NotDatabase)
	}
	return nil
}
