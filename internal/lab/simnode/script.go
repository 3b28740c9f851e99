package simnode

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	"encoding/hex"
	"fmt"
)

// script is one that a process has seen.
type script struct {
	hash   string
	body   string
	native func(*scriptCall) // nil: it runs in the interpreter
}

// scriptCall is a script while it is executed.
type scriptCall struct {
	*call

	script     *script
	keys, argv [][]byte
	identity   string // of the node
	room       *room
}

// room is for what a script works on; the next one uses it again.
type room struct {
	items   []item
	keys    [][]byte
	deleted []int64
}

// natives are the scripts that are Go functions here, by hash: one who changes
// one runs it in the interpreter, until its function here does the same and the
// differential test has said so.
var natives = map[string]func(*scriptCall){
	"cb2860bb9afbae1a091079956a8e3ac43586fb45": (*scriptCall).acquire,
	"a8dabe9dbbf939a2328e279d9333ff7fd7db382c": (*scriptCall).acquireBatch,
	"860fcd946361f66fd5017f08cfcdba991b63b93c": (*scriptCall).raise,
	"765e3b591b27e730e56adaa2ed71a4f1d7feb9e5": (*scriptCall).extend,
	"6e7133fb2805cca9e52bb3cfbfa00315ea2ade14": (*scriptCall).reseed,
	"a73a865f961538f7e2095d239620cec1c493dc40": (*scriptCall).release,
	"1ba093cc11ec89830b35643db46080f31653f603": (*scriptCall).releaseBatch,
	"7d2609fa9506ea0856a1c7654f7c3ea7d9db8ffb": (*scriptCall).hand,
	"ebbeb2ec501fbd6e83bb6d1604cfed654261a7c9": (*scriptCall).handOne,
	"0cfa2febea0e0d0667127094d9047e5fe97cf3ae": (*scriptCall).readRecord,
	// chaos/plain.go
	"cf0e94b2e9ffc7e04395cf88f7583fc309985910": (*scriptCall).deleteIfOurs,
	"a7aba3bc5d6e99b3003da8b9d80a63b9f4092ecf": (*scriptCall).expireIfOurs,
}

// queueing are the natives that do only what is done where nobody waits, and with how
// many arguments, by the number of keys, such a call says nothing of who does.
var queueing = map[string]func(keys int) int{
	"cb2860bb9afbae1a091079956a8e3ac43586fb45": func(int) int { return 5 },
	"a8dabe9dbbf939a2328e279d9333ff7fd7db382c": func(keys int) int { return 1 + 4*(keys-1)/2 },
	"a73a865f961538f7e2095d239620cec1c493dc40": func(keys int) int { return keys },
	"1ba093cc11ec89830b35643db46080f31653f603": func(keys int) int { return 1 + keys },
	"7d2609fa9506ea0856a1c7654f7c3ea7d9db8ffb": func(keys int) int { return 1 + 3*(keys-1) },
	"ebbeb2ec501fbd6e83bb6d1604cfed654261a7c9": func(int) int { return 4 },
}

// IsNative tells whether a script is a Go function here.
func IsNative(body string) bool { return natives[hashOf(body)] != nil }

func hashOf(body string) string {
	sum := sha1.Sum([]byte(body)) //nolint:gosec // the name that Redis gives a script, not a secret
	return hex.EncodeToString(sum[:])
}

// waited tells whether the script is one of those for which it matters that somebody
// waits for a lock here, or that the call says who does: that the interpreter does.
func (c *scriptCall) waited() bool {
	plain, matters := queueing[c.script.hash]
	return matters && (c.find([]byte("redlock:waiting")) != nil || len(c.argv) > plain(len(c.keys)))
}

// abort ends a script with an error of a command that it called.
func (c *scriptCall) abort(message string) {
	c.reply.fail(fmt.Sprintf("%s script: %s, on @user_script:0.", message, c.script.hash))
}

// malformed ends a script that was called with something that is no number, or
// met one, or has too few arguments.
func (c *scriptCall) malformed() {
	c.abort("ERR user_script: not the arguments that it is called with")
}

// shaped tells whether there are so many keys and arguments, at least.
func (c *scriptCall) shaped(keys, argv int) bool {
	if len(c.keys) >= keys && len(c.argv) >= argv {
		return true
	}
	c.malformed()
	return false
}
