package main_test

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/testkit/loopback"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// denied is what redis 7.0.15 says to each connection from another machine in protected
// mode, up to a line's end, before it closes it.
const denied = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. " +
	"In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt " +
	"one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by " +
	"connecting to Redis from the same host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use " +
	"CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing the Redis configuration file, " +
	"and setting the protected mode option to 'no', and then restarting the server. 3) If you started the server manually just for testing, restart it " +
	"with the '--protected-mode no' option. 4) Setup a an authentication password for the default user. NOTE: You only need to do one of the above " +
	"things in order for the server to start accepting connections from the outside.\r\n"

// parts listens at an address, says the words to each who comes, and closes.
func parts(t *testing.T, words string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(words))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// wantNamed checks that nodes, doctor and exec each name the fault and its remedy.
func wantNamed(t *testing.T, nodes string, words ...string) {
	t.Helper()
	for _, args := range [][]string{{"nodes"}, {"doctor"}, {"exec", "-n", "k", "true"}} {
		r := run(t, nodes, append([]string{"--node-timeout", "1s"}, args...)...)
		for _, w := range words {
			if !strings.Contains(r.out+r.errs, w) {
				t.Errorf("%v: got exit status %d and\n%s%s\nwant %q in it", args, r.code, r.out, r.errs, w)
			}
		}
		if strings.Contains(r.out+r.errs, "firewall") {
			t.Errorf("%v: got\n%s%s\nwant no advice about firewalls", args, r.out, r.errs)
		}
	}
}

func TestProtectedModeIsNamed(t *testing.T) {
	t.Parallel()
	addr := parts(t, denied)
	wantNamed(t, addr, "protected mode", "requirepass")
	wantNamed(t, "rediss://"+addr, "protected mode", "requirepass")
	run(t, addr, "exec", "-n", "--node-timeout", "1s", "k", "true").want(t, 78)
	_, err := redlock.Open(t.Context(), []string{addr}, redlock.WithNodeTimeout(nodeTimeout))
	if err == nil || !strings.Contains(err.Error(), "protected mode") {
		t.Errorf("Open: got %v; want protected mode named", err)
	}
	full := run(t, parts(t, "-ERR max number of clients reached\r\n"), "nodes", "--node-timeout", "1s")
	full.want(t, 69, "maxclients")
}

// The same of a real server, by an address of this machine that is not loopback.
func TestProtectedModeOfAServerIsNamed(t *testing.T) {
	t.Parallel()
	addrs, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil {
			continue
		}
		s := testserver.NeedOne(t, redisserver.Config{Args: []string{"--protected-mode", "yes", "--bind", "0.0.0.0"}})
		_, port, err := net.SplitHostPort(s.Addr())
		must(t, err)
		wantNamed(t, net.JoinHostPort(ip.IP.String(), port), "protected mode", "requirepass")
		return
	}
	t.Skip("this machine has no address but loopback")
}

func TestTLSToAPortWithoutItAndTheReverseAreNamed(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	port, err := loopback.Port()
	must(t, err)
	config := redisserver.Config{Args: []string{
		"--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert,
	}}
	if probe, err := redisserver.StartAll(1, config); err != nil && strings.Contains(err.Error(), "tls-port") {
		t.Skipf("the server speaks no TLS: %v", err)
	} else if err == nil {
		must(t, redisserver.CloseAll(probe))
	}
	s := testserver.NeedOne(t, config)
	secure := "127.0.0.1:" + strconv.Itoa(port)
	for _, c := range []struct{ nodes, says string }{
		{secure, "that port speaks TLS: give rediss://"}, {"rediss://" + s.Addr(), "that port speaks no TLS: give redis://"},
	} {
		for _, args := range [][]string{
			{"nodes"},
			{"doctor"},
			{"exec", "-n", "k", "true"},
			{"hold", "-n", "k"},
			{"exec", "--wait", "500ms", "k", "true"},
			{"lead", "--wait", "500ms", "k", "true"},
			{"revoke", "k"},
			{"bench", "--duration", "100ms"},
		} {
			r := run(t, c.nodes, append([]string{"--node-timeout", "1s"}, args...)...)
			if !strings.Contains(strings.Join(strings.Fields(r.out+r.errs), " "), c.says) || strings.Contains(r.out, "firewall") {
				t.Errorf("%v: got %s%s; want %q", args, r.out, r.errs, c.says)
			}
		}
	}
	run(t, secure, "exec", "-n", "--node-timeout", "1s", "k", "true").want(t, 69, "closed without a word", "rediss://")
}
