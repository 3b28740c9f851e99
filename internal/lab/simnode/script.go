package simnode

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script, not a secret
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// script is one that a process has seen.
type script struct{ hash, body string }

func hashOf(body string) string {
	sum := sha1.Sum([]byte(body)) //nolint:gosec // the name that Redis gives a script, not a secret
	return hex.EncodeToString(sum[:])
}

// scriptCommand is SCRIPT.
func (c *serverCall) scriptCommand() {
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
func (c *serverCall) see(body string) (*script, error) {
	hash := hashOf(body)
	if s := c.node.scripts[hash]; s != nil {
		return s, nil
	}
	s := &script{hash, body}
	if err := c.node.interpreterLocked().compile(s); err != nil {
		return nil, err
	}
	c.node.scripts[hash] = s
	return s, nil
}

func (c *serverCall) eval() {
	keys, argv, ok := c.splitArgs()
	if !ok {
		return
	}
	s, err := c.see(c.arg(1))
	if err != nil {
		c.reply.fail(fmt.Sprintf("ERR Error compiling script (new function): %v", err))
		return
	}
	c.run(s, keys, argv)
}

func (c *serverCall) evalSHA() {
	if len(c.args[1]) != 2*sha1.Size {
		c.reply.fail(noScript)
		return
	}
	keys, argv, ok := c.splitArgs()
	if !ok {
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
	c.run(s, keys, argv)
}

// splitArgs finds KEYS and ARGV.
func (c *serverCall) splitArgs() (keys, argv [][]byte, ok bool) {
	n, ok := integer(c.arg(2))
	switch {
	case !ok:
		c.reply.fail(notInteger)
	case n > int64(len(c.args)-3):
		c.reply.fail("ERR Number of keys can't be greater than number of args")
	case n < 0:
		c.reply.fail("ERR Number of keys can't be negative")
	default:
		return c.args[3 : 3+n], c.args[3+n:], true
	}
	return nil, nil, false
}

// run executes a script.
func (c *serverCall) run(s *script, keys, argv [][]byte) {
	in := c.node.interpreterLocked()
	err := in.compile(s)
	if err == nil {
		err = in.run(c.reply, s, keys, argv, c.callFromScript)
	}
	if err != nil { // of a command that it called
		c.reply.fail(fmt.Sprintf("%v script: %s, on @user_script:0.", err, s.hash))
	}
}

// callFromScript executes a command that the script calls, and returns the reply.
func (c *serverCall) callFromScript(args [][]byte) []byte {
	var r reply
	inner := serverCall{call: call{data: c.data, args: args, now: c.now, reply: &r}, node: c.node, session: c.session, nested: true}
	inner.execute()
	return r.buf
}

// interpreter runs the scripts: slowly, and with what
// Redis offers them as far as lock scripts use it (KEYS, ARGV, redis.call and
// pcall, and replies). A node has one, whose state serves all its scripts.
type interpreter struct {
	state   *lua.LState
	scripts map[string]*lua.LFunction
	call    func(args [][]byte) []byte // executes a command for the script that runs
}

// newInterpreter is one that knows no script yet.
func newInterpreter() *interpreter {
	in := &interpreter{state: lua.NewState(lua.Options{SkipOpenLibs: true}), scripts: map[string]*lua.LFunction{}}
	for name, open := range map[string]lua.LGFunction{
		"": lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		in.state.Push(in.state.NewFunction(open))
		in.state.Push(lua.LString(name))
		in.state.Call(1, 0)
	}
	for _, name := range []string{"dofile", "loadfile", "print", "require", "module"} {
		in.state.SetGlobal(name, lua.LNil)
	}
	redis := in.state.NewTable()
	for name, f := range map[string]lua.LGFunction{
		"call": in.redisCall, "pcall": in.redisPCall, "sha1hex": sha1hex, "error_reply": one("err"), "status_reply": one("ok"),
		"log": func(*lua.LState) int { return 0 }, "replicate_commands": func(*lua.LState) int { return 0 },
	} {
		redis.RawSetString(name, in.state.NewFunction(f))
	}
	in.state.SetGlobal("redis", redis)
	return in
}

// compiled are the scripts that any node has compiled, by hash: most have the same ones.
var compiled sync.Map

// compile makes a function of a script.
func (in *interpreter) compile(s *script) error {
	if in.scripts[s.hash] != nil {
		return nil
	}
	proto, known := compiled.Load(s.hash)
	if !known {
		chunk, err := parse.Parse(strings.NewReader(s.body), "user_script")
		if err != nil {
			return err
		}
		if proto, err = lua.Compile(chunk, "user_script"); err != nil {
			return err
		}
		compiled.Store(s.hash, proto)
	}
	in.scripts[s.hash] = in.state.NewFunctionFromProto(proto.(*lua.FunctionProto)) //nolint:forcetypeassert // nothing else is stored
	return nil
}

// run runs a script, with do for the commands that it calls, and writes its reply.
func (in *interpreter) run(r *reply, s *script, keys, argv [][]byte, do func(args [][]byte) []byte) error {
	in.call = do
	L := in.state
	L.SetGlobal("KEYS", in.list(keys))
	L.SetGlobal("ARGV", in.list(argv))
	err := L.CallByParam(lua.P{Fn: in.scripts[s.hash], NRet: 1, Protect: true})
	if err == nil {
		in.reply(r, L.Get(-1))
		L.Pop(1)
		return nil
	}
	var failed *lua.ApiError
	if !errors.As(err, &failed) {
		return err
	}
	if t, ok := failed.Object.(*lua.LTable); ok {
		return errors.New(lua.LVAsString(t.RawGetString("err")))
	}
	return errors.New("ERR " + failed.Object.String())
}

func (in *interpreter) list(items [][]byte) *lua.LTable {
	t := in.state.CreateTable(len(items), 0)
	for _, item := range items {
		t.Append(lua.LString(item))
	}
	return t
}

// redisCall is redis.call: an error ends the script.
func (in *interpreter) redisCall(L *lua.LState) int {
	v := in.command(L)
	if t, ok := v.(*lua.LTable); ok && t.RawGetString("err") != lua.LNil {
		L.Error(t, 0)
	}
	L.Push(v)
	return 1
}

// redisPCall is redis.pcall: an error is a value.
func (in *interpreter) redisPCall(L *lua.LState) int {
	L.Push(in.command(L))
	return 1
}

// command executes what the script calls. The reply goes the way that it goes in
// Redis: from its bytes into Lua's values.
func (in *interpreter) command(L *lua.LState) lua.LValue {
	var args [][]byte
	for i := 1; i <= L.GetTop(); i++ {
		switch v := L.Get(i).(type) {
		case lua.LString:
			args = append(args, []byte(v))
		case lua.LNumber:
			args = append(args, strconv.AppendFloat(nil, float64(v), 'g', 17, 64))
		default:
			return in.failure("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(args) == 0 {
		return in.failure("ERR Please specify at least one argument for this redis.call() call")
	}
	v, _ := in.value(in.call(args))
	return v
}

func (in *interpreter) failure(message string) lua.LValue {
	t := in.state.NewTable()
	t.RawSetString("err", lua.LString(message))
	return t
}

// value reads a reply of RESP2, and returns what follows it.
func (in *interpreter) value(buf []byte) (lua.LValue, []byte) {
	line, rest, _ := strings.Cut(string(buf), "\r\n")
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '+':
		t := in.state.NewTable()
		t.RawSetString("ok", lua.LString(line[1:]))
		return t, []byte(rest)
	case '-':
		return in.failure(line[1:]), []byte(rest)
	case ':':
		return lua.LNumber(n), []byte(rest)
	case '$':
		if n < 0 {
			return lua.LFalse, []byte(rest)
		}
		return lua.LString(rest[:n]), []byte(rest[n+2:])
	default:
		t := in.state.CreateTable(n, 0)
		after := []byte(rest)
		for i := range n {
			var v lua.LValue
			v, after = in.value(after)
			t.RawSetInt(i+1, v)
		}
		return t, after
	}
}

// reply writes what a script returned.
func (in *interpreter) reply(r *reply, v lua.LValue) {
	switch v := v.(type) {
	case lua.LString:
		r.bulk(string(v))
	case lua.LNumber:
		r.int(int64(v))
	case lua.LBool:
		if v {
			r.int(1)
		} else {
			r.null()
		}
	case *lua.LTable:
		if text := v.RawGetString("err"); text != lua.LNil {
			r.fail(lua.LVAsString(text))
			return
		}
		if text := v.RawGetString("ok"); text != lua.LNil {
			r.status(lua.LVAsString(text))
			return
		}
		n := 0
		for v.RawGetInt(n+1) != lua.LNil {
			n++
		}
		r.array(n)
		for i := range n {
			in.reply(r, v.RawGetInt(i+1))
		}
	default:
		r.null()
	}
}

// one is redis.error_reply and redis.status_reply.
func one(field string) lua.LGFunction {
	return func(L *lua.LState) int {
		t := L.NewTable()
		t.RawSetString(field, lua.LString(L.CheckString(1)))
		L.Push(t)
		return 1
	}
}

func sha1hex(L *lua.LState) int {
	L.Push(lua.LString(hashOf(fmt.Sprint(L.Get(1)))))
	return 1
}
