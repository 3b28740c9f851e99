package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/cli"
	"github.com/quorumkit/redlock/internal/node"
)

// nodesVariable names the nodes if no flag does: a list with passwords stands neither in
// ps nor in each crontab line. The other two are the credentials of all nodes whose URL has
// none, so that the list may be public.
const (
	nodesVariable    = "REDLOCK_NODES"
	userVariable     = "REDLOCK_USER"
	clusterVariable  = "REDLOCK_CLUSTER"
	passwordVariable = "REDLOCK_PASSWORD"
)

// connection is the flags that every command has: the nodes, and how to speak to
// them.
type connection struct {
	nodes, nodesFile, names string
	added                   []string // nodes besides those, which nodes change adds
	user, passwordFile      string
	cluster                 string
	founds                  bool // nodes admit: the pin is for those who must not
	prefix                  string
	nodeTimeout, maxTTL     time.Duration
	strict                  bool
	certificates            certificates
}

// define adds the flags to a set. A value from before the command's name is the
// default after it.
func (c *connection) define(fs *flag.FlagSet) {
	maxTTL := c.maxTTL
	if maxTTL == 0 {
		maxTTL = redlock.DefaultMaxTTL
	}
	fs.StringVar(&c.nodes, "nodes", c.nodes, "the masters: `LIST` of host:port or URLs, separated by commas (or "+nodesVariable+")")
	fs.StringVar(&c.nodesFile, "nodes-file", c.nodesFile, "the masters, one a line, from `FILE`: passwords stay out of ps")
	fs.StringVar(&c.user, "user", c.user, "the `NAME` of the user on nodes whose URL has none (or "+userVariable+")")
	fs.StringVar(&c.passwordFile, "password-file", c.passwordFile, "its password, from `FILE`, which each dial reads again (or "+passwordVariable+")")
	fs.StringVar(&c.names, "node-names", c.names, "the nodes' `NAMES`, where clients see them under different addresses")
	fs.StringVar(&c.cluster, "cluster", c.cluster, "the `ID` of the only cluster to lock in (or "+clusterVariable+"): none is founded")
	fs.StringVar(&c.prefix, "prefix", c.prefix, "`TEXT` put before every key")
	cli.DurationFlag(fs, &c.nodeTimeout, "node-timeout", c.nodeTimeout, "the bound of one command to one node, a `DURATION`\n(default 250ms, at most a quarter of the TTL)")
	cli.DurationFlag(fs, &c.maxTTL, "max-ttl", maxTTL, "the longest lease that this client takes, a `DURATION`, and\nthat a cluster which it founds allows; to change it: redlock nodes change")
	fs.BoolVar(&c.strict, "strict-recovery", c.strict, "leave founding and recovering a cluster to: redlock nodes admit;\nto change it: redlock nodes change")
	c.certificates.define(fs)
}

// urls are the nodes given, by flag, file or variable. A flag outranks the variable, as
// everywhere. Two flags are refused: half a list from each would be another cluster.
func (c *connection) urls(getenv func(string) string) ([]string, error) {
	if c.nodes != "" && c.nodesFile != "" {
		return nil, cli.Usagef("give --nodes or --nodes-file, not both")
	}
	text := c.nodes
	if c.nodesFile != "" {
		var err error
		if text, err = readNodes(c.nodesFile); err != nil {
			return nil, err
		}
	} else if text == "" {
		text = getenv(nodesVariable)
	}
	urls := split(text)
	if len(urls) == 0 {
		return nil, configuration("no nodes given: use --nodes, --nodes-file or %s", nodesVariable)
	}
	for _, add := range c.added {
		if c.names == "" && !slices.ContainsFunc(urls, func(u string) bool { return addressOf(u) == addressOf(add) }) {
			urls = append(urls, add)
		}
	}
	return urls, nil
}

// addressOf is a URL's address; what is no URL stays.
func addressOf(u string) string {
	o, err := node.ParseURL(u)
	if err != nil {
		return u
	}
	return o.Addr
}

// split takes a list apart at commas and blanks, so that a shell's here-document or YAML's
// folded text serves as it is.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

// session is a Locker with the clients it stands on.
type session struct {
	locker  *redlock.Locker
	clients []*redis.Client
	names   []string
	leaves  bool // what is held is not released: it lapses

	mu     sync.Mutex    // guards the fields below
	lacks  *stopwatch    // since when attempts find no quorum; nil if the last one found it
	failed redlock.Event // the last renewal without a quorum; zero if the lock was confirmed since

	warn func(string)
}

// open makes a Locker. Unlike redlock.Open it demands no quorum: an operator wants most to
// see the nodes when there is none, and an acquire waits for one. All URLs that do not parse
// are named at once. change is bench's hook into a node's options; nil if none.
func (a *app) open(change func(node int, o *redis.Options), opts ...redlock.Option) (*session, error) {
	c := &a.connection
	if c.cluster = cmp.Or(c.cluster, a.Getenv(clusterVariable)); c.founds {
		c.cluster = ""
	}
	urls, err := c.urls(a.Getenv)
	if err != nil {
		return nil, err
	}
	a.warnOfReaders(urls)
	config, err := c.certificates.config()
	if err != nil {
		return nil, err
	}
	ask, err := c.credentials(a.Getenv)
	if err != nil {
		return nil, err
	}
	s := &session{warn: a.complain}
	nodes, secured := make([]redis.UniversalClient, len(urls)), config == nil
	for i, u := range urls {
		o, parseErr := node.ParseURL(u)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("%w: node %d of the list: %w", redlock.ErrInvalidNode, i, parseErr))
			continue
		}
		// As redlock.Open treats its clients: a hung node must not hold a command up.
		node.Harden(o, c.timeout())
		node.Listen(o)
		err = errors.Join(err, c.identify(o, ask))
		secured = c.certificates.secure(o, config) || secured
		if change != nil {
			change(i, o)
		}
		client := redis.NewClient(o)
		s.clients, s.names, nodes[i] = append(s.clients, client), append(s.names, node.NameOf(o.Addr)), client
	}
	// Certificates for nodes without TLS would be ignored, and the user believe in them.
	if err == nil && !secured {
		err = cli.Usagef("--cacert and --cert are for rediss:// nodes: none is given")
	}
	if err == nil {
		if c.names != "" {
			s.names = split(c.names)
		}
		s.locker, err = redlock.New(nodes, append(c.options(s), opts...)...)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// options are those of the connection's flags. A command's own stand behind them, and so win.
func (c *connection) options(s *session) []redlock.Option {
	opts := []redlock.Option{
		redlock.WithTTL(min(redlock.DefaultTTL, c.maxTTL)), // where the command has no flag for it
		redlock.WithMaxTTL(c.maxTTL), redlock.WithPrefix(c.prefix), redlock.WithNodeNames(s.names...), redlock.WithObserver(s.observe),
	}
	if c.nodeTimeout != 0 {
		opts = append(opts, redlock.WithNodeTimeout(c.nodeTimeout))
	}
	if c.strict {
		opts = append(opts, redlock.WithStrictRecovery())
	}
	if c.cluster != "" {
		opts = append(opts, redlock.WithCluster(c.cluster))
	}
	return opts
}

// timeout bounds a client's calls; the Locker bounds its own besides. The clients serve
// commands without a Locker's call as well: Ping, and the transactions of release.
func (c *connection) timeout() time.Duration {
	if c.nodeTimeout > 0 {
		return c.nodeTimeout
	}
	return redlock.DefaultNodeTimeout
}

// observe notes events of attempts and renewals.
func (s *session) observe(e redlock.Event) {
	switch e.Kind { //nolint:exhaustive // the others are nothing to a command
	case redlock.EventExtendFailed, redlock.EventLockExtended:
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.Err != nil {
			s.failed = e
		} else if e.Resource == s.failed.Resource {
			s.failed = redlock.Event{}
		}
	case redlock.EventAttemptFailed, redlock.EventAcquireFailed, redlock.EventLockAcquired:
		if e.Kind == redlock.EventLockAcquired { // of another hold than what failed
			s.mu.Lock()
			s.failed = redlock.Event{}
			s.mu.Unlock()
		}
		s.wanted(e.Kind == redlock.EventAttemptFailed && e.Reason == redlock.ReasonNoQuorum)
	}
}

// wanted notes whether an attempt for a lock has just found no quorum. The first such
// attempt starts the clock, and any other outcome stops it: tellWaits asks it how long.
func (s *session) wanted(lacks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !lacks:
		s.lacks = nil
	case s.lacks == nil:
		since := startWatch()
		s.lacks = &since
	}
}

// unconfirmed returns the cause of a last renewal of key without a quorum, behind a colon.
func (s *session) unconfirmed(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed.Err == nil {
		return ""
	}
	return ": " + strings.TrimPrefix(unnamed(oneLine(s.failed.Err)), "extend "+key+": no quorum: ")
}

// lacking is for how long a lock has been wanted without a quorum; 0 if it is not.
func (s *session) lacking() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lacks == nil {
		return 0
	}
	return s.lacks.elapsed()
}

// withSession runs a command over the nodes given. It closes the session even after an
// error: Close releases what is still held. The command's error and Close's
// are joined, and exitCode takes the first that has a status.
func (a *app) withSession(ctx context.Context, do func(context.Context, *session) error, opts ...redlock.Option) error {
	s, err := a.open(nil, append(opts, a.options...)...) //nolint:contextcheck // a Locker lives until it is closed
	if err != nil {
		return err
	}
	err = s.whoMisdialled(ctx, do(ctx, s))
	end := s.close() //nolint:contextcheck // Close is bounded by itself
	if end != nil && !errors.Is(end, redlock.ErrNoQuorum) {
		// The name is free: a key that one node keeps for a lease is no failure of the command.
		a.complain(worded(end.Error()))
		end = nil
	}
	return errors.Join(err, end)
}

// each calls do for every node at the same time, and returns when all calls have: a node
// that hangs costs one ReadTimeout, not one for each node behind it.
func (s *session) each(ctx context.Context, do func(ctx context.Context, i int, c *redis.Client)) {
	var asking sync.WaitGroup
	for i, c := range s.clients {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, c.Options().ReadTimeout)
			defer cancel()
			do(ctx, i, c)
		})
	}
	asking.Wait()
}

// misdialled finds, of the nodes that are wanted, those where one side speaks TLS and the
// other does not. An error is nil if neither is seen.
func (s *session) misdialled(ctx context.Context, wanted []bool) []error {
	what := make([]error, len(s.clients))
	s.each(ctx, func(ctx context.Context, i int, c *redis.Client) {
		if wanted[i] {
			what[i] = node.Speaks(ctx, c.Options())
		}
	})
	return what
}

// whoMisdialled adds, to the error of a command that found no quorum, the nodes where one
// side speaks TLS and the other does not. go-redis reports only that a request was not sent,
// and the fault is one letter of the URL. It asks only nodes that do not answer now, and only
// after the failure, so that it costs a good command nothing.
func (s *session) whoMisdialled(ctx context.Context, err error) error {
	if exitCode(err) != exitNoQuorum && !errors.Is(err, redlock.ErrNoQuorum) || err.Error() == "" {
		return err
	}
	silent := make([]bool, len(s.clients))
	s.each(ctx, func(ctx context.Context, i int, c *redis.Client) { silent[i] = c.Ping(ctx).Err() != nil })
	all := []error{err}
	for i, what := range s.misdialled(ctx, silent) {
		if what != nil {
			all = append(all, fmt.Errorf("%s: %w", s.names[i], what))
		}
	}
	return errors.Join(all...)
}

// close ends the Locker, then the clients under it, through which the Locker still releases. A
// Locker that leaves a lock behind ends with the program.
// Its error is the Locker's: something it held was not confirmed to be free. A socket's error
// is dropped: under TLS, closing a connection that broke while idle is an error, and would
// turn a command that has done its work into a failure.
func (s *session) close() error {
	var err error
	if s.locker != nil && !s.leaves {
		err = s.locker.Close()
	}
	for _, c := range s.clients {
		_ = c.Close()
	}
	return err
}

// certificates are files of PEM, under the names that redis-cli has for them, so that its
// command line can be copied. Without --cacert the system's authorities count; without
// --cert the client shows no certificate. There is no --insecure: a lock over masters that
// anybody may impersonate excludes nobody.
type certificates struct{ authorities, own, key string }

func (c *certificates) define(fs *flag.FlagSet) {
	fs.StringVar(&c.authorities, "cacert", c.authorities, "trust the certificates signed by those in `FILE`, for rediss:// nodes\n(default: the system's)")
	fs.StringVar(&c.own, "cert", c.own, "show the certificate in `FILE` to rediss:// nodes; give --key too")
	fs.StringVar(&c.key, "key", c.key, "the private key of --cert, in `FILE`")
}

// config is what rediss:// clients get, except the host's name; nil if no flag was given.
// TLS 1.2 is the oldest that Go's own client takes by default, too.
func (c *certificates) config() (*tls.Config, error) {
	if *c == (certificates{}) {
		return nil, nil //nolint:nilnil // no settings are no fault
	}
	// crypto/tls would say that a file has no name.
	if (c.own == "") != (c.key == "") {
		return nil, cli.Usagef("give --cert and --key together")
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.own != "" {
		pair, err := tls.LoadX509KeyPair(c.own, c.key)
		if err != nil {
			return nil, configuration("--cert and --key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if c.authorities != "" {
		text, err := os.ReadFile(c.authorities)
		if err != nil {
			return nil, configuration("--cacert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, configuration("--cacert: %s has no certificate in PEM", c.authorities)
		}
	}
	return config, nil
}

// secure gives a client its settings, if it speaks TLS, and tells whether it does. The
// server's name stays the URL's: each node's certificate is checked for its own host. Each
// dial reads the files again, since certificates are renewed while a lead lasts for weeks. A
// dial between the renewal of one file and that of the next has the last ones that fit.
func (c *certificates) secure(o *redis.Options, config *tls.Config) bool {
	if config == nil || o.TLSConfig == nil {
		return false
	}
	host := o.TLSConfig.ServerName
	var last atomic.Pointer[tls.Config]
	last.Store(config)
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if config, err := c.config(); err == nil {
			last.Store(config)
		}
		own := last.Load().Clone()
		own.ServerName = host
		return redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: own})(ctx, network, addr)
	}
	o.TLSConfig = config.Clone() // for what speaks to the node without a dial of the pool's
	o.TLSConfig.ServerName = host
	return true
}

// credentials asks the flags or the variables, at each dial; nil if they give none. A secret
// that an orchestrator mounts as a file changes there: the next connection has the new one,
// and those that are open keep the old one, as the servers have it. An empty password is
// refused at once, since a file that is empty by mistake would mean the default user.
func (c *connection) credentials(getenv func(string) string) (func(context.Context) (user, password string, err error), error) {
	user, text := cmp.Or(c.user, getenv(userVariable)), getenv(passwordVariable)
	ask := func(context.Context) (string, string, error) {
		if c.passwordFile == "" {
			return user, text, nil
		}
		read, err := os.ReadFile(c.passwordFile)
		if err != nil {
			return "", "", configuration("--password-file: %w", err)
		}
		return user, strings.TrimRight(string(read), "\r\n"), nil
	}
	_, password, err := ask(context.Background())
	switch {
	case err != nil:
		return nil, err
	case password == "" && (user != "" || c.passwordFile != ""):
		return nil, configuration("no password for the user %q: give it by --password-file, or %s", user, passwordVariable)
	case password == "":
		return nil, nil //nolint:nilnil // no settings are no fault
	}
	return ask, nil
}

// identify gives them to a client. A URL's own outrank the variables; beside flags they are
// refused, as one of the two would be ignored.
func (c *connection) identify(o *redis.Options, ask func(context.Context) (user, password string, err error)) error {
	if o.Username == "" && o.Password == "" {
		node.Identify(o, ask)
	} else if c.user != "" || c.passwordFile != "" {
		return cli.Usagef("the URL of %s has a user or a password: leave that out, or --user and --password-file", o.Addr)
	}
	return nil
}

// readNodes reads a file of nodes: one a line, "#" begins a comment. A file that can't be
// read is a configuration (78), and the variable is not tried instead: it may name others.
func readNodes(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // the user's own file is the point
	if err != nil {
		return "", configuration("--nodes-file: %w", err)
	}
	defer f.Close()
	var lines []string
	in := bufio.NewScanner(f)
	for in.Scan() {
		// A password may hold a "#", so only one at the beginning is a comment.
		if line := strings.TrimSpace(in.Text()); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if err := in.Err(); err != nil {
		return "", configuration("--nodes-file: %w", err)
	}
	return strings.Join(lines, ","), nil
}

// forOthers is the permission of every user to read a file. The group's permissions are the
// owner's choice.
const forOthers = 0o004

// warnOfReaders warns of a password in a file that every user may read. ssh refuses such a
// key file. Here a refusal could stop a job whose lock is needed, so the command goes on.
func (a *app) warnOfReaders(urls []string) {
	if runtime.GOOS == "windows" { // there the bits say nothing
		return
	}
	files := map[string]string{"--password-file": a.connection.passwordFile}
	if secret(urls) {
		files["--nodes-file"] = a.connection.nodesFile
	}
	for name, path := range files {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&forOthers != 0 {
			a.complain("warning: " + name + " " + path + " has a password, and every user can read it: chmod o-r, or 600")
		}
	}
}

// secret tells whether one of the URLs has a password, or may have one: in a URL that does
// not parse, what stands before an @ is taken for one.
func secret(urls []string) bool {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			if strings.Contains(text, "@") {
				return true
			}
			continue
		}
		if _, set := u.User.Password(); set {
			return true
		}
	}
	return false
}
