package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock/internal/cli"
)

// certificates are files of PEM, named as redis-cli names them. What is not given
// is the system's, or goes without.
type certificates struct{ authorities, own, key string }

func (c *certificates) define(fs *flag.FlagSet) {
	fs.StringVar(&c.authorities, "cacert", c.authorities, "trust the certificates signed by those in `FILE`, for rediss:// nodes\n(default: the system's)")
	fs.StringVar(&c.own, "cert", c.own, "show the certificate in `FILE` to rediss:// nodes; give --key too")
	fs.StringVar(&c.key, "key", c.key, "the private key of --cert, in `FILE`")
}

// config is what rediss:// clients get, but for the host's name; nil: nothing was
// asked for.
func (c *certificates) config() (*tls.Config, error) {
	if *c == (certificates{}) {
		return nil, nil //nolint:nilnil // no settings are no fault
	}
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

// secure gives a client its settings, if it speaks TLS, and tells whether it does.
func secure(o *redis.Options, config *tls.Config) bool {
	if config == nil || o.TLSConfig == nil {
		return false
	}
	host := o.TLSConfig.ServerName
	o.TLSConfig = config.Clone()
	o.TLSConfig.ServerName = host
	return true
}
