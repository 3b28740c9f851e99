package simnode

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	"encoding/hex"
	"fmt"
	"strings"
)

// script is one that a process has seen.
type script struct {
	hash   string
	body   string
	native func(*call) // nil: it runs in the interpreter
}

// natives are the scripts that are Go functions here, by hash: whoever changes
// one runs it in the interpreter, until its function here does the same and the
// differential test has said so.
var natives = map[string]func(*call){
	"0a812a111b3f001847468275d1123f902b4dcb7e": (*call).acquire,
	"80258465e400081e19f7a379ba39f9433f8d6dce": (*call).acquireBatch,
	"fb329e23f4501d1b720f72781789411b8ccb5619": (*call).raise,
	"f3564fd57ac85811ac34fdc2fd77911629a26ec6": (*call).extend,
	"6e7133fb2805cca9e52bb3cfbfa00315ea2ade14": (*call).reseed,
	"307c7436af43104c4460449b0a958c9e31695f0d": (*call).release,
	"941fc1a1f10bb6a8211d364923f4c96d6122286b": (*call).releaseBatch,
	"0cfa2febea0e0d0667127094d9047e5fe97cf3ae": (*call).readRecord,
	"281ee3781bd821a55739a4563dd209f89fe61018": (*call).notice,
	"9e864fca84abb7f9877a3f968ba598dfd47da976": (*call).install,
	"26e523c26a8ca144a3558e6f7a8ac4946c59be06": (*call).amend,
	"971ed9865248e3aa913c05ef1b57109880d76979": (*call).retire,
	"65709149a51460495814b086b4a43332c2906dcd": (*call).lower,
	// chaos/plain.go
	"cf0e94b2e9ffc7e04395cf88f7583fc309985910": (*call).deleteIfOurs,
	"a7aba3bc5d6e99b3003da8b9d80a63b9f4092ecf": (*call).expireIfOurs,
}

// queueing are the natives that do only what is done where nobody waits.
var queueing = map[string]bool{
	"0a812a111b3f001847468275d1123f902b4dcb7e": true,
	"80258465e400081e19f7a379ba39f9433f8d6dce": true,
	"307c7436af43104c4460449b0a958c9e31695f0d": true,
	"941fc1a1f10bb6a8211d364923f4c96d6122286b": true,
}

// releases is release_batch.lua, which may say how to leave a queue.
var releases = map[string]bool{"941fc1a1f10bb6a8211d364923f4c96d6122286b": true}

// IsNative tells whether a script is a Go function here.
func IsNative(body string) bool { return natives[hashOf(body)] != nil }

func hashOf(body string) string {
	sum := sha1.Sum([]byte(body)) //nolint:gosec // the name that Redis gives a script, not a secret
	return hex.EncodeToString(sum[:])
}

// scriptCommand is SCRIPT.
func (c *call) scriptCommand() {
	switch {
	case c.is("LOAD") && len(c.args) == 3:
		if s, err := c.see(c.arg(2)); err != nil {
			c.reply.fail(fmt.Sprintf("ERR Error compiling script (new function): %v", err))
		} else {
			c.reply.bulk(s.hash)
		}
	case c.is("EXISTS") && len(c.args) > 2:
		c.reply.array(len(c.args) - 2)
		for _, hash := range c.args[2:] {
			if c.node.scripts[strings.ToLower(string(hash))] != nil {
				c.reply.int(1)
			} else {
				c.reply.int(0)
			}
		}
	case c.is("FLUSH"):
		clear(c.node.scripts)
		c.ok()
	default:
		c.reply.fail(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%s'. Try SCRIPT HELP.", c.arg(1)))
	}
}

// see takes a script into the process's cache.
func (c *call) see(body string) (*script, error) {
	hash := hashOf(body)
	if s := c.node.scripts[hash]; s != nil {
		return s, nil
	}
	s := &script{hash: hash, body: body, native: natives[hash]}
	if s.native == nil {
		if err := c.node.interpreter().compile(hash, body); err != nil {
			return nil, err
		}
	}
	c.node.scripts[hash] = s
	return s, nil
}

func (c *call) eval() {
	if !c.splitArgs() {
		return
	}
	s, err := c.see(c.arg(1))
	if err != nil {
		c.reply.fail(fmt.Sprintf("ERR Error compiling script (new function): %v", err))
		return
	}
	c.run(s)
}

func (c *call) evalSHA() {
	if len(c.args[1]) != 2*sha1.Size {
		c.reply.fail(noScript)
		return
	}
	if !c.splitArgs() {
		return
	}
	s := c.node.scripts[string(c.args[1])]
	if s == nil {
		s = c.node.scripts[strings.ToLower(c.arg(1))]
	}
	if s == nil {
		c.reply.fail(noScript)
		return
	}
	c.run(s)
}

// splitArgs finds KEYS and ARGV.
func (c *call) splitArgs() bool {
	n, ok := integer(c.arg(2))
	switch {
	case !ok:
		c.reply.fail(notInteger)
	case n > int64(len(c.args)-3):
		c.reply.fail("ERR Number of keys can't be greater than number of args")
	case n < 0:
		c.reply.fail("ERR Number of keys can't be negative")
	default:
		c.keys, c.argv = c.args[3:3+n], c.args[3+n:]
		return true
	}
	return false
}

func (c *call) run(s *script) {
	c.script = s
	if s.native != nil && (!queueing[s.hash] || !c.waited()) {
		s.native(c)
		return
	}
	if err := c.node.interpreter().compile(s.hash, s.body); err != nil {
		c.abort(err.Error())
		return
	}
	c.node.interpreter().run(c)
}

// waited tells whether somebody waits for a lock here, or the call says how to
// leave a queue: what the scripts do then, the interpreter does.
func (c *call) waited() bool {
	return c.find([]byte("redlock:waiting")) != nil || releases[c.script.hash] && len(c.argv) > 1+len(c.keys)
}

// abort ends a script with an error of a command that it called.
func (c *call) abort(message string) {
	c.reply.fail(fmt.Sprintf("%s script: %s, on @user_script:0.", message, c.script.hash))
}

// malformed ends a script that was called with something that is no number, or
// met one, or has too few arguments.
func (c *call) malformed() { c.abort("ERR user_script: not the arguments that it is called with") }

// shaped tells whether there are so many keys and arguments, at least.
func (c *call) shaped(keys, argv int) bool {
	if len(c.keys) >= keys && len(c.argv) >= argv {
		return true
	}
	c.malformed()
	return false
}
