package redlock

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	_ "embed"
	"encoding/hex"
)

// script is one Lua script, called by its hash only.
type script struct {
	name string
	body string
	hash string
}

func newScript(name, body string) *script {
	sum := sha1.Sum([]byte(body)) //nolint:gosec // the name that Redis gives a script, not a secret
	return &script{name: name, body: body, hash: hex.EncodeToString(sum[:])}
}

//go:embed lua/acquire.lua
var acquireBody string

//go:embed lua/acquire_batch.lua
var acquireBatchBody string

//go:embed lua/raise.lua
var raiseBody string

//go:embed lua/extend.lua
var extendBody string

//go:embed lua/reseed.lua
var reseedBody string

//go:embed lua/release.lua
var releaseBody string

//go:embed lua/release_batch.lua
var releaseBatchBody string

//go:embed lua/ask.lua
var askBody string

//go:embed lua/pass.lua
var passBody string

//go:embed lua/look.lua
var lookBody string

//go:embed lua/read.lua
var readBody string

//go:embed lua/notice.lua
var noticeBody string

//go:embed lua/install.lua
var installBody string

//go:embed lua/amend.lua
var amendBody string

//go:embed lua/lower.lua
var lowerBody string

//go:embed lua/retire.lua
var retireBody string

var (
	acquireScript      = newScript("acquire", acquireBody)
	acquireBatchScript = newScript("acquire_batch", acquireBatchBody)
	raiseScript        = newScript("raise", raiseBody)
	extendScript       = newScript("extend", extendBody)
	reseedScript       = newScript("reseed", reseedBody)
	releaseScript      = newScript("release", releaseBody)
	releaseBatchScript = newScript("release_batch", releaseBatchBody)
	askScript          = newScript("ask", askBody)
	passScript         = newScript("pass", passBody)
	lookScript         = newScript("look", lookBody)

	// The membership's scripts are loaded where they are first used.
	readScript    = newScript("read", readBody)
	noticeScript  = newScript("notice", noticeBody)
	installScript = newScript("install", installBody)
	amendScript   = newScript("amend", amendBody)
	lowerScript   = newScript("lower", lowerBody)
	retireScript  = newScript("retire", retireBody)

	// votingScripts are loaded on a verified member only: their absence is what
	// keeps a restarted server from voting.
	votingScripts = []*script{acquireScript, acquireBatchScript, raiseScript, extendScript, reseedScript, askScript, passScript}
	// keepingScripts may be loaded on any node, like those of the membership.
	keepingScripts = []*script{releaseScript, releaseBatchScript, lookScript}
)

// The most locks that one script call carries. A script holds the server's one
// thread while it runs: 250 renewals are well under a millisecond.
const (
	acquireBatchSize = 64
	releaseBatchSize = 64
	extendBatchSize  = 250
	askBatchSize     = 32
	lookBatchSize    = 250
)
