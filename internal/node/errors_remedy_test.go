package node_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/node"
)

func TestTheMissingRightIsReadFromEachServersWords(t *testing.T) {
	line := strings.Count(lua.ReadScript.Body[:strings.Index(lua.ReadScript.Body, "call('HMGET'")], "\n") + 1
	old := "ERR The user executing the script can't run this command or subcommand script: %s, on @user_script:%d."
	for reply, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'script|load' command":                          "+script|load",
		"NOPERM User redlock has no permissions to run the 'get' command":                               "+get",
		"ERR ACL failure in script: User redlock has no permissions to run the 'set' command script: e": "+set",
		fmt.Sprintf(old, lua.ReadScript.Hash, line):                                                     "+hmget",
		fmt.Sprintf(old, lua.ReadScript.Hash, 1):                                                        "",
		fmt.Sprintf(old, lua.ReadScript.Hash, 1000):                                                     "",
		fmt.Sprintf(old, strings.Repeat("0", 40), line):                                                 "",
		"NOPERM this user has no permissions to access one of the keys used as arguments":               "",
	} {
		if got := node.MissingRight(errors.New(reply)); got != want {
			t.Errorf("%s: got %q; want %q", reply, got, want)
		}
	}
}

func TestAnAlertIsOfTheClientsCertificateIfItSaysSo(t *testing.T) {
	for alert, want := range map[string]string{"tls: certificate required": "show a certificate", "tls: protocol version not supported": "see what"} {
		if got := node.Remedy(&net.OpError{Op: "remote error", Err: errors.New(alert)}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q; want %q", alert, got, want)
		}
	}
}
