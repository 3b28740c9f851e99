package node_test

import (
	"errors"
	"fmt"
	"net"
	"regexp"
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
		"NOPERM this user has no permissions to access one of the channels used as arguments":           "&redlock:*",
		"NOPERM No permissions to access a channel":                                                     "&redlock:*",
	} {
		if got := node.MissingRight(errors.New(reply)); got != want {
			t.Errorf("%s: got %q; want %q", reply, got, want)
		}
	}
}

// FuzzMissingRight: no matter how a server refuses, the right is a word of its reply, or
// commands of a line of ours.
func FuzzMissingRight(f *testing.F) {
	ours := regexp.MustCompile(`^\+[a-z]+( or \+[a-z]+)*$`)
	f.Add("NOPERM User redlock has no permissions to run the 'GET' command")
	f.Add("permissions to run the ''")
	f.Add("can't run this command or subcommand script: " + lua.ReadScript.Hash + ", on @user_script:20.")
	f.Add("can't run this command or subcommand script: " + lua.ReadScript.Hash + ", on @user_script:99999999999999999999.")
	f.Fuzz(func(t *testing.T, reply string) {
		right, says := strings.CutPrefix(node.MissingRight(errors.New(reply)), "+")
		if right == "&redlock:*" && strings.Contains(reply, " channel") {
			return
		}
		if !says && right != "" || says && !strings.Contains(strings.ToLower(reply), "'"+right+"'") && !ours.MatchString("+"+right) {
			t.Fatalf("of %q: got %q", reply, right)
		}
	})
}

func TestAnAlertIsOfTheClientsCertificateIfItSaysSo(t *testing.T) {
	for alert, want := range map[string]string{"tls: certificate required": "show a certificate", "tls: protocol version not supported": "see what"} {
		if got := node.Remedy(&net.OpError{Op: "remote error", Err: errors.New(alert)}); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q; want %q", alert, got, want)
		}
	}
}
