package simnode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// interpreter runs the scripts that are no Go functions: slowly, and with what
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

// compile makes a function of a script.
func (in *interpreter) compile(hash, body string) error {
	if in.scripts[hash] != nil {
		return nil
	}
	chunk, err := parse.Parse(strings.NewReader(body), "user_script")
	if err != nil {
		return err
	}
	proto, err := lua.Compile(chunk, "user_script")
	if err != nil {
		return err
	}
	in.scripts[hash] = in.state.NewFunctionFromProto(proto)
	return nil
}

// run runs a script, with do for the commands that it calls, and writes its reply.
func (in *interpreter) run(c *scriptCall, do func(args [][]byte) []byte) {
	in.call = do
	L := in.state
	L.SetGlobal("KEYS", in.list(c.keys))
	L.SetGlobal("ARGV", in.list(c.argv))
	err := L.CallByParam(lua.P{Fn: in.scripts[c.script.hash], NRet: 1, Protect: true})
	if err == nil {
		in.reply(c.reply, L.Get(-1))
		L.Pop(1)
		return
	}
	message := err.Error()
	var failed *lua.ApiError
	if errors.As(err, &failed) {
		message = failed.Object.String()
		if t, ok := failed.Object.(*lua.LTable); ok {
			message = lua.LVAsString(t.RawGetString("err"))
		} else {
			message = "ERR " + message
		}
	}
	c.abort(message)
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
