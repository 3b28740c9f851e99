package lua_test

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumkit/redlock/internal/lab/redisserver"
	"github.com/quorumkit/redlock/internal/lua"
	"github.com/quorumkit/redlock/internal/testkit/testserver"
)

// owners are the owner values of shared holds, as the cases write them.
var owners = map[string]string{
	"A": "00000000-0000-4000-8000-00000000000a", "B": "label with spaces 00000000-0000-4000-8000-00000000000b",
	"C": "00000000-0000-4000-8000-00000000000c",
}

// sharing is a server whose name is shared. In what it is sent @600 is the time 600
// seconds from the case's begin, by the server's clock, in ms, and so it shows times.
type sharing struct {
	*node

	begin int64
}

func newSharing(t *testing.T, addr string) *sharing {
	t.Helper()
	s := &sharing{node: newNode(t, addr)}
	s.begins()
	return s
}

// begins starts the case now, on an empty server.
func (s *sharing) begins() {
	s.t.Helper()
	s.do("FLUSHALL")
	s.begin = s.now()
}

func (s *sharing) now() int64 {
	s.t.Helper()
	now, err := s.c.Time(s.t.Context()).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	return now.UnixMilli()
}

// late is whether so much of a second is over that times may be rounded to the next one.
func (s *sharing) late() bool { return s.now()-s.begin >= 400 }

// plays is how often a case is played where the machine is too busy.
const plays = 20

var moment = regexp.MustCompile(`@(-?\d+)`)

// given sends commands, in which <A> is the owner value of A.
func (s *sharing) given(lines string) {
	s.t.Helper()
	s.do(s.absolute(lines))
}

func (s *sharing) absolute(text string) string {
	text = moment.ReplaceAllStringFunc(text, func(at string) string {
		seconds, _ := strconv.ParseInt(at[1:], 10, 64)
		return strconv.FormatInt(s.begin+1000*seconds, 10)
	})
	for letter, value := range owners {
		text = strings.ReplaceAll(text, "<"+letter+">", value)
	}
	return text
}

// at is a time as the cases have it, and other scores as they are.
func (s *sharing) at(ms float64) string {
	if ms < 1e9 {
		return fmt.Sprintf(" %.0f", ms)
	}
	return fmt.Sprintf("@%.0f", math.Round((ms-float64(s.begin))/1000))
}

var remaining = regexp.MustCompile(`-?\d{5,}`)

// call runs a script. What remains of a lease it returns in seconds, as
// in taken600 and left600.
func (s *sharing) call(c call) string {
	s.t.Helper()
	return remaining.ReplaceAllStringFunc(s.run(c.script, s.keys(c), s.args(c)...), func(reply string) string {
		n, _ := strconv.ParseFloat(reply, 64)
		switch {
		case math.Abs(n) > 1e10:
			return reply
		case n > 0:
			return fmt.Sprintf("left%.0f", math.Round(n/1000))
		}
		return fmt.Sprintf("taken%.0f", math.Round((-10-n)/1000))
	})
}

func (s *sharing) keys(c call) (keys []string) {
	for _, k := range c.keys {
		keys = append(keys, s.absolute(k))
	}
	return keys
}

func (s *sharing) args(c call) (args []any) {
	for _, a := range c.args {
		if text, ok := a.(string); ok {
			a = s.absolute(text)
		}
		args = append(args, a)
	}
	return args
}

// shows is what is stored under the name and of those who wait, and what was heard.
func (s *sharing) shows() string {
	s.t.Helper()
	ctx, out := s.t.Context(), []string(nil)
	switch kind := s.c.Type(ctx, "name").Val(); kind {
	case "none":
		out = append(out, "free")
	case "zset":
		out = append(out, s.set()...)
	default:
		out = append(out, kind)
	}
	out = append(out, "7="+s.c.HGet(ctx, lua.NodeKey, "7").Val())
	for _, line := range []struct{ key, sign string }{{lua.QueueKey, "!"}, {lua.SharersKey, "&"}} {
		for _, z := range s.c.ZRangeWithScores(ctx, line.key+"name", 0, -1).Val() {
			out = append(out, fmt.Sprintf("%s%s%.0f", z.Member.(string)[:1], line.sign, z.Score))
		}
	}
	s.do("PUBLISH,mark,")
	for {
		m, err := s.calls.ReceiveMessage(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		if m.Channel == "mark" {
			return strings.Join(out, " ")
		}
		what := "calls "
		if m.Payload != "name" {
			what = "grants "
		}
		out = append(out, what+strings.TrimPrefix(m.Channel, lua.WakeChannel)[:1])
	}
}

// set is the members of the name's sorted set, with the generation's number first; and
// another end of the key than the last of theirs.
func (s *sharing) set() (out []string) {
	ctx, latest := s.t.Context(), -1.0
	for i, z := range s.c.ZRangeWithScores(ctx, "name", 0, -1).Val() {
		member := z.Member.(string)
		if member == lua.SharedMark && i == 0 {
			out = append(out, fmt.Sprintf("#%.0f", -z.Score))
			continue
		}
		for letter, value := range owners {
			if member == value {
				member = letter
			}
		}
		out, latest = append(out, member+s.at(z.Score)), max(latest, z.Score)
	}
	if ends := s.c.PExpireTime(ctx, "name").Val().Milliseconds(); out[0][0] == '#' && ends != int64(latest) {
		out = append(out, fmt.Sprintf("(the key ends %s)", s.at(float64(ends))))
	}
	return out
}

// The states that cases begin with: nobody has the name; A shares it; A and B do.
const (
	none    = "HSET,redlock:node,epoch,e1,base,5,7,40\n"
	aShares = none + "HSET,redlock:node,7,41\nZADD,name,-41,redlock:shared,@600,<A>\nPEXPIREAT,name,@600\n"
	bothDo  = aShares + "ZADD,name,@900,<B>\nPEXPIREAT,name,@900\n"
	aEnded  = none + "HSET,redlock:node,7,44\nZADD,name,-41,redlock:shared,@-5,<A>,@900,<B>\nPEXPIREAT,name,@900\n"
	// allEnded: the key's end has not come by the time that the server sees.
	allEnded = none + "HSET,redlock:node,7,44\nZADD,name,-41,redlock:shared,@-5,<A>,@-3,<B>\nPEXPIREAT,name,@900\n"
	theirs   = none + "ZADD,name,-50,x,-41,redlock:shared,3,y\n" // another program's
	held40   = none + "SET,name," + held + ",PX,600000\n"
	foreign  = none + "SET,name,x,PX,600000\n"

	anybodyWaits = "SET,redlock:waiting,1,PX,3000\n"
	// exclusive: P waits for the name at 30.
	exclusive = anybodyWaits + "SET,redlock:live:P,1,PX,3000\nZADD,redlock:queue:name,30,P,30,P owner\n"
	deadOne   = anybodyWaits + "ZADD,redlock:queue:name,30,P,30,P owner\n"
	// sharers: Q waits to share it at 20, R at 50.
	sharers = anybodyWaits + "SET,redlock:sharing,1,PX,300000\nSET,redlock:live:Q,1,PX,3000\nSET,redlock:live:R,1,PX,3000\nZADD,redlock:sharers:name,20,Q,50,R\n"
)

// shareBy is a process's share of the name at a place, and share one that S asks.
func shareBy(id, owner string, place int) call {
	owner = "<" + owner + ">"
	return call{lua.ShareScript, []string{lua.NodeKey, "name", lua.TombstoneKey + owner}, []any{"e1", id, 77, 7, owner, 600000, place}}
}

func share(owner string, place int) call { return shareBy("S", owner, place) }

func extendShared(owner string) call {
	return call{lua.ExtendSharedScript, []string{lua.NodeKey, "name"}, []any{"e1", "<" + owner + ">", 600000}}
}

func reseedShared(owner string, token int64) call {
	owner = "<" + owner + ">"
	return call{lua.ReseedSharedScript, []string{lua.NodeKey, "name", lua.TombstoneKey + owner}, []any{"e1", 7, owner, 600000, token}}
}

func raiseShared(owner string, to int64) call {
	return call{lua.RaiseSharedScript, []string{"name", lua.NodeKey}, []any{"<" + owner + ">", 7, to, "e1"}}
}

// endShared is the release of a shared hold: alone, or of S in a mode and with its place.
func endShared(owner string, entry ...any) call {
	args := []any{1, "<" + owner + ">"}
	if len(entry) > 0 {
		args = append(append(args, "S"), entry...)
	}
	return call{lua.ReleaseSharedScript, []string{"name"}, args}
}

// with is a call with another argument.
func (c call) with(i int, arg any) call {
	c.args = append([]any(nil), c.args...)
	c.args[i] = arg
	return c
}

// on runs a case on a server.
func (c sharedCase) on(t *testing.T, addr string) {
	t.Helper()
	s := newSharing(t, addr)
	s.hear(c.hears...)
	for range plays {
		s.begins()
		s.given(c.given)
		reply := s.call(c.call)
		late, shows := s.late(), s.shows()
		if late {
			continue
		}
		if reply != c.reply {
			t.Errorf("got %s; want %s", reply, c.reply)
		}
		if shows != c.shows {
			t.Errorf("the node shows\n%s; want\n%s", shows, c.shows)
		}
		return
	}
	t.Fatalf("%d plays all took too long", plays)
}

func testShared(t *testing.T, addr string) {
	t.Helper()
	for group, cases := range map[string][]sharedCase{"share": shareCases, "keep": keepCases, "end": endCases, "beside": besideCases, "release beside": wakeCases} {
		for _, c := range cases {
			t.Run(group+": "+c.name, func(t *testing.T) {
				c.on(t, addr)
			})
		}
	}
}

func TestSharedOnAServer(t *testing.T) {
	testShared(t, testserver.NeedOne(t, redisserver.Config{}).Addr())
}

func TestSharedInProcess(t *testing.T) {
	m := miniredis.RunT(t)
	m.SetTime(time.Now()) // its keys do not end by themselves, so their ends must not move
	testShared(t, m.Addr())
}
