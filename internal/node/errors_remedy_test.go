package node_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/node"
)

func TestAnAlertIsOfTheClientsCertificateIfItSaysSo(t *testing.T) {
	for alert, want := range map[string]string{"tls: certificate required": "show a certificate", "tls: protocol version not supported": "see what"} {
		if got := node.Remedy(&net.OpError{Op: "remote error", Err: errors.New(alert)}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q; want %q", alert, got, want)
		}
	}
}
