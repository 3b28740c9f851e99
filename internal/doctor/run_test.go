package doctor

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// The lines of a remedy are for the node's address, user and TLS, and end with what keeps it.
func TestARemedysLinesAreForTheNodesServer(t *testing.T) {
	for _, c := range []struct {
		options redis.Options
		info    string // the configuration file
		aclfile string
		about   diagnosis
		want    []string
	}{
		{redis.Options{Addr: "10.0.0.1:6379"}, "/etc/r.conf", "", aboutMinReplicas, []string{"redis-cli -h 10.0.0.1 -p 6379 CONFIG SET min-replicas-to-write 0", "redis-cli -h 10.0.0.1 -p 6379 CONFIG REWRITE"}},
		{redis.Options{Addr: "10.0.0.1:6379", Password: "secret"}, "", "", aboutMinReplicas, []string{"redis-cli -h 10.0.0.1 -p 6379 CONFIG SET min-replicas-to-write 0", "# it has no file of settings: start it with that one, or it is forgotten"}},
		{redis.Options{Addr: "[::1]:1", Username: "it's", TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}, "", "", aboutMinReplicas, []string{`'redis-cli' '-h' '::1' '-p' '1' '--user' 'it'\''s' '--tls' CONFIG SET min-replicas-to-write 0`, "# it has no file of settings: start it with that one, or it is forgotten"}},
		{redis.Options{Addr: "/run/r.sock", Network: "unix"}, "/etc/r.conf", "/etc/u.acl", aboutReplay, []string{"redis-cli -s /run/r.sock ACL SETUSER default off '~*' '&*' +@all", "redis-cli -s /run/r.sock ACL SAVE"}},
		{redis.Options{Addr: "/run/r.sock", Network: "unix"}, "/etc/r.conf", "/etc/u.acl", aboutEviction, []string{"redis-cli -s /run/r.sock CONFIG SET maxmemory-policy noeviction", "redis-cli -s /run/r.sock CONFIG REWRITE"}},
		{redis.Options{Addr: "10.0.0.1:6379"}, "/etc/r.conf", "", aboutMemory, nil},
	} {
		d := goodDoctor(1)
		d.exams[0].options, d.exams[0].info["config_file"], d.exams[0].config["aclfile"] = &c.options, c.info, c.aclfile
		if got := d.lines(0, c.about); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %q; want %q", c.options.Addr, got, c.want)
		}
	}
}

// The same report comes each time, also of addresses that have half of the nodes each.
func TestAddressesAreNamedInOneOrder(t *testing.T) {
	for range 20 {
		d := goodDoctor(4)
		addressed("10.0.0.2:1", "10.0.0.1:1", "10.0.0.2:2", "10.0.0.1:2")(d, nil)
		d.sameHost()
		if len(d.findings) != 2 || !strings.Contains(d.findings[0].What, "10.0.0.1") || !strings.Contains(d.findings[1].What, "10.0.0.2") {
			t.Fatalf("got %+v; want both, in order", d.findings)
		}
	}
}
