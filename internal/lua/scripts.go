// Package lua has the scripts that run on a node, and the keys and channels that
// the library has there.
package lua

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	_ "embed"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// Script is one Lua script, called by its hash only.
type Script struct {
	Name string
	Body string
	Hash string
}

func newScript(name, body string) *Script {
	body = included.Replace(body)
	sum := sha1.Sum([]byte(body)) //nolint:gosec // the name that Redis gives a script, not a secret
	return &Script{Name: name, Body: body, Hash: hex.EncodeToString(sum[:])}
}

//go:embed head.lua
var headBody string

//go:embed wake.lua
var wakeBody string

//go:embed tombstone.lua
var tombstoneBody string

// included replaces a line that names a shared part by the part's text.
var included = strings.NewReplacer("-- include head.lua\n", headBody, "-- include wake.lua\n", wakeBody, "-- include tombstone.lua\n", tombstoneBody)

//go:embed acquire.lua
var acquireBody string

//go:embed acquire_batch.lua
var acquireBatchBody string

//go:embed raise.lua
var raiseBody string

//go:embed extend.lua
var extendBody string

//go:embed reseed.lua
var reseedBody string

//go:embed release.lua
var releaseBody string

//go:embed release_batch.lua
var releaseBatchBody string

//go:embed hand.lua
var handBody string

//go:embed hand_one.lua
var handOneBody string

//go:embed ask.lua
var askBody string

//go:embed pass.lua
var passBody string

//go:embed look.lua
var lookBody string

//go:embed share.lua
var shareBody string

//go:embed extend_shared.lua
var extendSharedBody string

//go:embed reseed_shared.lua
var reseedSharedBody string

//go:embed raise_shared.lua
var raiseSharedBody string

//go:embed release_shared.lua
var releaseSharedBody string

//go:embed ask_slot.lua
var askSlotBody string

//go:embed release_slot.lua
var releaseSlotBody string

//go:embed read.lua
var readBody string

//go:embed notice.lua
var noticeBody string

//go:embed install.lua
var installBody string

//go:embed seize.lua
var seizeBody string

//go:embed settle.lua
var settleBody string

//go:embed accept.lua
var acceptBody string

//go:embed force.lua
var forceBody string

// The scripts, each named as its file.
var (
	AcquireScript      = newScript("acquire", acquireBody)
	AcquireBatchScript = newScript("acquire_batch", acquireBatchBody)
	RaiseScript        = newScript("raise", raiseBody)
	ExtendScript       = newScript("extend", extendBody)
	ReseedScript       = newScript("reseed", reseedBody)
	ReleaseScript      = newScript("release", releaseBody)
	ReleaseBatchScript = newScript("release_batch", releaseBatchBody)
	HandScript         = newScript("hand", handBody)
	HandOneScript      = newScript("hand_one", handOneBody)
	AskScript          = newScript("ask", askBody)
	PassScript         = newScript("pass", passBody)
	LookScript         = newScript("look", lookBody)

	// ShareScript and the next four are for shared names. Each but the raise takes all
	// names of a call.
	ShareScript         = newScript("share", shareBody)
	ExtendSharedScript  = newScript("extend_shared", extendSharedBody)
	ReseedSharedScript  = newScript("reseed_shared", reseedSharedBody)
	RaiseSharedScript   = newScript("raise_shared", raiseSharedBody)
	ReleaseSharedScript = newScript("release_shared", releaseSharedBody)

	// AskSlotScript and ReleaseSlotScript are for names with several holders at once, by slots.
	AskSlotScript     = newScript("ask_slot", askSlotBody)
	ReleaseSlotScript = newScript("release_slot", releaseSlotBody)

	// ReadScript and the next five are the membership's.
	ReadScript    = newScript("read", readBody)
	NoticeScript  = newScript("notice", noticeBody)
	InstallScript = newScript("install", installBody)
	SeizeScript   = newScript("seize", seizeBody)
	SettleScript  = newScript("settle", settleBody)
	AcceptScript  = newScript("accept", acceptBody)
	ForceScript   = newScript("force", forceBody)

	// VotingScripts are loaded on a verified member only: their absence is what
	// keeps a restarted server from voting.
	VotingScripts = []*Script{
		AcquireScript, AcquireBatchScript, RaiseScript, ExtendScript, ReseedScript, AskScript, PassScript, HandScript, HandOneScript,
		ShareScript, ExtendSharedScript, ReseedSharedScript, RaiseSharedScript, AskSlotScript,
	}
	// KeepingScripts may be loaded on any node, like those of the membership.
	KeepingScripts = []*Script{ReleaseScript, ReleaseBatchScript, LookScript, ReleaseSharedScript, ReleaseSlotScript}
	// MembershipScripts are loaded where they are first used.
	MembershipScripts = []*Script{ReadScript, NoticeScript, InstallScript, SeizeScript, SettleScript, AcceptScript, ForceScript}
)

// calling finds the commands that a line of a script calls.
var calling = regexp.MustCompile(`\bp?call\('([A-Z]+)'`)

// CommandsAt are the commands in one line of the script with this hash, for a server that
// tells no more of what it refused. nil: it is no script of ours.
func CommandsAt(hash string, line int) (commands []string) {
	for _, s := range slices.Concat(VotingScripts, KeepingScripts, MembershipScripts) {
		lines := strings.Split(s.Body, "\n")
		if s.Hash != hash || line < 1 || line > len(lines) {
			continue
		}
		for _, m := range calling.FindAllStringSubmatch(lines[line-1], -1) {
			commands = append(commands, m[1])
		}
	}
	return commands
}

// The most locks that one script call carries. A script holds the server's one
// thread while it runs: 250 renewals are well under a millisecond.
const (
	AcquireBatchSize = 64
	ReleaseBatchSize = 64
	ExtendBatchSize  = 250
	HandBatchSize    = 64
	AskBatchSize     = 32
	LookBatchSize    = 250
	ShareBatchSize   = 32 // and as many ends of shared holds; renewals as ExtendBatchSize
)
