package fencing

import (
	"context"
	_ "embed" // for the scripts
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/quorumkit/redlock"
)

var (
	//go:embed lua/prologue.lua
	prologueLua string
	//go:embed lua/command.lua
	commandLua string

	command = NewRedisScript(commandLua)
)

// Redis guards the writes to one Redis, or one Redis Cluster. That is the
// resource, not one of the nodes that vote on the lock. It never closes its
// client, and is safe for concurrent use if its client is.
//
// Unit of atomicity: one script, which compares the token, stores it under
// TokenKey and writes. The token key has no TTL: memory grows by one small key
// for each resource. It holds what Seen.String writes: one number, or two
// while the newest holds are shared.
//
// Not promised: that the server remembers. A failover to a replica that lags
// loses the newest tokens with the newest writes; an eviction policy that takes
// keys without a TTL (allkeys-*), or a FLUSHDB, takes tokens and leaves other
// guards' data. A script that fails half way keeps its writes so far, and its token.
type Redis struct {
	client redis.UniversalClient
}

// NewRedis returns a guard over client. It panics if client is nil.
func NewRedis(client redis.UniversalClient) *Redis {
	if client == nil {
		panic("fencing: NewRedis: nil client")
	}
	return &Redis{client: client}
}

// TokenKey returns the key under which the token of resource is kept. In a
// Redis Cluster it lies in the slot of the hash tag {resource}, and every key
// that is written with it must have that tag: the cluster refuses others. There,
// give the resource a name without braces.
func (g *Redis) TokenKey(resource string) string { return "fencing:{" + resource + "}" }

// Do runs one command that writes key, if Seen.Accept accepts token: Do(ctx, "jobs", token, "SET", "jobs:{jobs}:state", "done").
// The command is named without its key. See Run for blocking and errors.
func (g *Redis) Do(ctx context.Context, resource string, token redlock.Token, name, key string, args ...any) *redis.Cmd {
	return g.Run(ctx, command, resource, token, []string{key}, append([]any{name}, args...)...)
}

// RedisScript is a caller's script behind the prologue. It is safe for
// concurrent use.
type RedisScript struct {
	script *redis.Script
}

// NewRedisScript puts the prologue before body, which stays as it is: its KEYS
// and ARGV are those that are given to Run. A first line "#!lua ..." stays the
// first line.
func NewRedisScript(body string) *RedisScript {
	shebang := ""
	if strings.HasPrefix(body, "#!") {
		line, rest, _ := strings.Cut(body, "\n")
		shebang, body = line+"\n", rest
	}
	return &RedisScript{script: redis.NewScript(shebang + prologueLua + body)}
}

// RedisPrologue returns the Lua text that NewRedisScript puts before a body, for
// scripts that are loaded by other means. Its first lines tell its arguments and
// replies. It guards the writes of its own script alone: beside one that refuses a stale
// token, Redis runs the other commands of a MULTI. So put all writes into the script.
func RedisPrologue() string { return prologueLua }

// Run runs script with keys and args, if Seen.Accept accepts token. The token is
// that of a shared hold if ctx says so: see IsShared. It blocks as the client
// does: until the reply, ctx's end or the client's own timeouts.
//
// The returned command's error is what Seen.Accept returns, with nothing written;
// ErrCorrupt when the token key holds something else, with nothing written; or
// the client's error, untouched (redis.Nil is the script's nil reply). After a
// timeout or a lost connection the write may have happened; under the same token
// it may be tried again, if the script itself may run twice. go-redis by itself
// sends a command again when a connection fails.
func (g *Redis) Run(ctx context.Context, script *RedisScript, resource string, token redlock.Token, keys []string, args ...any) *redis.Cmd {
	if err := valid(resource, token); err != nil {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	allKeys := append([]string{g.TokenKey(resource)}, keys...)
	shared := IsShared(ctx, resource, token)
	allArgs := append([]any{shown(token, shared)}, args...)
	cmd := script.script.Run(ctx, g.client, allKeys, allArgs...)
	if err := cmd.Err(); err != nil {
		cmd.SetErr(refusal(err, resource, token, shared))
	}
	return cmd
}

// Highest returns the largest token of either kind that resource has seen, 0 if
// none. It returns ErrCorrupt, or the client's error.
func (g *Redis) Highest(ctx context.Context, resource string) (redlock.Token, error) {
	text, err := g.client.Get(ctx, g.TokenKey(resource)).Result()
	if err == redis.Nil { //nolint:errorlint // go-redis returns it bare, and a wrapped one is not the key's absence
		return 0, nil
	}
	if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE ") {
		return 0, err
	}
	seen, parseErr := ParseSeen(text)
	if err != nil || parseErr != nil {
		return 0, fmt.Errorf("fencing: read %q: %w: %.40q", resource, ErrCorrupt, text)
	}
	return seen.Highest(), nil
}

// shown is the prologue's argument.
func shown(token redlock.Token, shared bool) string {
	if shared {
		return token.String() + " " + sharedWord
	}
	return token.String()
}

// refusal turns the prologue's error replies into the guard's errors.
func refusal(err error, resource string, token redlock.Token, shared bool) error {
	code, rest, _ := strings.Cut(err.Error(), " ")
	switch code {
	case "FENCED":
		number, kind, _ := strings.Cut(rest, " ")
		if highest, parseErr := strconv.ParseUint(number, 10, 64); parseErr == nil {
			return &StaleError{
				Resource: resource, Token: token, Shared: shared,
				Highest: redlock.Token(highest), HighestShared: kind == sharedWord,
			}
		}
	case "FENCECORRUPT":
		return fmt.Errorf("fencing: write %q: %w: %w", resource, ErrCorrupt, err)
	}
	return err
}
