package pagetest_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumkit/redlock/chaos"
	"github.com/quorumkit/redlock/internal/lab/page"
	"github.com/quorumkit/redlock/internal/lab/trace"
	"github.com/quorumkit/redlock/internal/testkit"
)

// written plays a scenario and writes its page.
func written(t *testing.T, scenario string) string {
	t.Helper()
	s, ok := chaos.FindScenario(scenario)
	if !ok {
		t.Fatalf("there is no scenario %q", scenario)
	}
	var runs []chaos.Run
	for _, c := range s.Showings {
		kit, err := chaos.ScenarioKit(c.Contender)
		testkit.Must(t, err)
		run := chaos.Run{About: trace.About{
			Scenario: s.Name, Claim: s.Claim, Lesson: s.Lesson, Contender: c.Contender, Guarded: c.Guarded, Backend: "virtual", Seed: 1, Claimed: &c,
		}}
		synctest.Test(t, func(t *testing.T) {
			stage, err := chaos.NewVirtual(1, s.Nodes)
			testkit.Must(t, err)
			run.About.Nodes = stage.Names()
			run.Records, err = s.Play(t.Context(), stage, kit, c.Guarded)
			if err := errors.Join(err, stage.Close()); err != nil {
				t.Error(err)
			}
		})
		run.Verdict = s.Judge().Judge(run.Records)
		runs = append(runs, run)
	}
	file := filepath.Join(t.TempDir(), scenario+".html")
	f, err := os.Create(file)
	testkit.Must(t, errors.Join(err, page.Write(f, runs...), f.Close()))
	return file
}

const (
	shown  = `!document.getElementById("card").hidden`
	text   = `document.getElementById("card").innerText`
	belief = `document.querySelector("#run-0 .mark.belief")`
	key    = `document.querySelector("#run-0 .mark.key")`
	band   = `document.querySelector(".mark.band .word")`
)

// One page, one browser: pointing, clicking, keys, schemes, a phone.
func TestAPageIsReadInABrowser(t *testing.T) {
	b := open(t, written(t, "clock-forward-quorum"))
	b.view(1180, 900, "light", false)
	for _, part := range []struct {
		name string
		do   func(*testing.T, *browser)
	}{
		{"pointing", pointing},
		{"clicking", clicking},
		{"keys", keys},
		{"zoom", zoom},
		{"dark and light", schemes},
		{"phone", phone},
		{"table", table},
		{"beside", beside},
		{"tooltips", tooltips},
		{"access", access},
	} {
		t.Run(part.name, func(t *testing.T) {
			whole := b.t
			b.t = t
			defer func() { b.t = whole }()
			part.do(t, b)
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, url := range b.requests {
		if !strings.HasPrefix(url, "file://") && !strings.HasPrefix(url, "data:") {
			t.Errorf("got a request for %s; want none over a network", url)
		}
	}
	if len(b.requests) == 0 {
		t.Error("got no request at all; the look for them is broken")
	}
	for _, e := range b.errors {
		t.Errorf("the console says %s", e)
	}
}

func says(t *testing.T, b *browser, want string) {
	t.Helper()
	got, _ := b.eval(text).(string)
	if b.eval(shown) != true || !strings.Contains(got, want) {
		t.Errorf("got a card that says %q; want %q in it", got, want)
	}
}

func pointing(t *testing.T, b *browser) {
	t.Helper()
	x, y := b.point(belief)
	b.mouse(x, y, false)
	says(t, b, "ann believes it holds")
	b.keep("card")
	b.mouse(2, 2, false)
	if b.eval(shown) == true {
		t.Error("got a card that stays when the pointer has left")
	}
	x, y = b.point(band)
	b.mouse(x, y, false)
	says(t, b, "two holders of")
	b.mouse(2, 2, false)
}

func clicking(t *testing.T, b *browser) {
	t.Helper()
	x, y := b.point(key)
	b.mouse(x, y, true)
	b.mouse(2, 2, false)
	says(t, b, "has the key of")
	b.press("Escape")
	if b.eval(shown) == true {
		t.Error("got a card that stays after Escape")
	}
}

func keys(t *testing.T, b *browser) {
	t.Helper()
	b.eval(`document.querySelector("#run-0 .picture").focus()`)
	b.press("ArrowRight")
	first := b.eval(text)
	if b.eval(shown) != true || b.eval(`document.activeElement.classList.contains("mark")`) != true {
		t.Error("got no mark with the focus and a card after an arrow key")
	}
	b.press("ArrowRight", "ArrowRight")
	if b.eval(text) == first {
		t.Error("got the same mark after two more arrow keys")
	}
	before := b.eval(`document.activeElement.closest("[role=group]").getAttribute("aria-label")`)
	b.press("ArrowDown")
	if after := b.eval(`document.activeElement.closest("[role=group]").getAttribute("aria-label")`); after == before {
		t.Errorf("got lane %v after ArrowDown; want another", after)
	}
	b.press("Enter")
	if b.eval(`document.getElementById("card").classList.contains("kept")`) != true {
		t.Error("got a card that Enter does not keep")
	}
	b.press("End")
	b.press("Escape")
	if b.eval(shown) == true {
		t.Error("got a card that stays after Escape")
	}
}

func zoom(t *testing.T, b *browser) {
	t.Helper()
	const width = `document.querySelector("#run-0 .time").getBoundingClientRect().width`
	before, _ := b.eval(width).(float64)
	x, y := b.point(`document.querySelector("#run-0 [data-zoom='2']")`)
	b.mouse(x, y, true)
	if after, _ := b.eval(width).(float64); after < 1.9*before {
		t.Errorf("got a picture of %v after zooming in, from %v; want twice as wide", after, before)
	}
	x, y = b.point(`document.querySelector("#run-0 [data-zoom='0.5']")`)
	b.mouse(x, y, true)
}

// contrast is that of WCAG 2 between the colour of an element's text and the
// page's, or the element's own, ground.
const contrast = `(() => {
	const rgb = (s) => s.match(/[\d.]+/g).map(Number);
	const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const ground = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
	let worst = 99, who = "";
	for (const e of document.querySelectorAll("h1, .claim, .lesson, th, td, small, a, .badge, .legend li, .help, .how, button, summary, .names text, .grid text")) {
		const style = getComputedStyle(e), svg = e instanceof SVGElement;
		const a = light(rgb(svg ? style.fill : style.color).slice(0, 3)), b = light(ground(e).slice(0, 3));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < worst) { worst = ratio; who = e.className.baseVal || e.className || e.tagName; }
	}
	return {worst, who};
})()`

func schemes(t *testing.T, b *browser) {
	t.Helper()
	grounds := map[string]any{}
	for _, scheme := range []string{"light", "dark"} {
		b.view(1180, 900, scheme, false)
		b.eval(`scrollTo(0, 0)`)
		b.keep(scheme)
		grounds[scheme] = b.eval(`getComputedStyle(document.body).backgroundColor`)
		found, _ := b.eval(contrast).(map[string]any)
		if ratio, _ := found["worst"].(float64); ratio < 4.5 {
			t.Errorf("%s: got a contrast of %.2f of %v; want 4.5", scheme, ratio, found["who"])
		}
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("got %v in both schemes", grounds["light"])
	}
}

func phone(t *testing.T, b *browser) {
	t.Helper()
	b.view(390, 844, "light", true)
	if over := b.eval(`document.documentElement.scrollWidth`); over != 390.0 {
		t.Errorf("got a page %v wide; want 390: the picture scrolls, the page does not", over)
	}
	if b.eval(`(() => { const p = document.querySelector(".picture"); return p.scrollWidth > p.clientWidth; })()`) != true {
		t.Error("got a picture that is squeezed; want one that scrolls")
	}
	b.keep("phone")
	x, y := b.point(key)
	b.tap(x, y)
	b.eventually(shown)
	says(t, b, "has the key of")
	b.keep("phone-card")
	if b.eval(`(() => { const r = document.getElementById("card").getBoundingClientRect(); return r.left >= 0 && r.right <= 390 && r.bottom <= 844; })()`) != true {
		t.Error("got a card that is not all on the screen")
	}
	b.press("Escape")
	b.view(1180, 900, "light", false)
}

// table is whole in a window of 500 pixels: nothing of it is beside the window.
func table(t *testing.T, b *browser) {
	t.Helper()
	for _, width := range []int{500, 390} {
		b.view(width, 844, "light", false)
		if over, _ := b.eval(`(() => { const s = document.querySelector(".scroll"); return s.scrollWidth - s.clientWidth; })()`).(float64); over > 0 {
			t.Errorf("got a table that is %v pixels wider than a window of %d", over, width)
		}
		b.keep(fmt.Sprintf("table-%d", width))
	}
	b.view(1180, 900, "light", false)
}

// beside: of two pictures the second stands right of the first where the window has the
// room, though the head of one has more lines, and below it in a window that is narrower.
// Either way a second is as wide in both, all of the page is in the window, and what is
// beside is seen without scrolling.
func beside(t *testing.T, b *browser) {
	t.Helper()
	for _, c := range []struct {
		width  int
		beside bool
	}{{1800, true}, {1280, true}, {1100, true}, {1099, false}, {500, false}} {
		b.view(c.width, 900, "light", false)
		for _, first := range []int{0, 2} {
			one, other := placeOf(t, b, first), placeOf(t, b, first+1)
			across := one["top"] == other["top"] && other["left"] >= one["right"] && one["hidden"] == 0
			below := one["left"] == other["left"] && other["top"] >= one["bottom"]
			if across != c.beside || below == c.beside {
				t.Errorf("%d pixels: got pictures at %v and %v; want them beside each other: %v", c.width, one, other, c.beside)
			}
			if one["scale"] != other["scale"] || one["second"] != other["second"] || one["scale"] < 350 {
				t.Errorf("%d pixels: got pictures of %v and %v; want one scale of time", c.width, one, other)
			}
		}
		if over := b.eval(`document.documentElement.scrollWidth`); over != float64(c.width) {
			t.Errorf("got a page %v wide in a window of %d", over, c.width)
		}
		b.eval(`document.querySelector("section").scrollIntoView()`)
		b.keep(fmt.Sprintf("beside-%d", c.width))
		b.eval(`scrollTo(0, 0)`)
	}
	b.view(1180, 900, "light", false)
}

// placeOf is where a picture is, how wide its time is, and where in that the last of the
// ticks stands.
func placeOf(t *testing.T, b *browser, n int) map[string]float64 {
	t.Helper()
	at, ok := b.eval(fmt.Sprintf(`(() => {
		const p = document.querySelector("#run-%d .picture"), r = p.getBoundingClientRect();
		const time = p.querySelector(".time").getBoundingClientRect();
		const ticks = p.querySelectorAll(".grid line:not(.last)");
		return {top: r.top, bottom: r.bottom, left: r.left, right: r.right, hidden: p.scrollWidth - p.clientWidth,
			scale: time.width, second: ticks[ticks.length - 1].getBoundingClientRect().left - time.left};
	})()`, n)).(map[string]any)
	if !ok {
		t.Fatalf("picture %d: got no place", n)
	}
	place := map[string]float64{}
	for key, v := range at {
		f, _ := v.(float64)
		place[key] = math.Round(f*100) / 100
	}
	return place
}

// tooltips: all marks of the first picture open a card that says something, by pointing
// or, in the order of time, by the keyboard.
func tooltips(t *testing.T, b *browser) {
	t.Helper()
	marks, _ := b.eval(`document.querySelectorAll("#run-0 .mark").length`).(float64)
	b.mouse(2, 2, false) // what was under it before says nothing more
	b.eval(`document.querySelector("#run-0 .picture").focus()`)
	b.press("Home")
	seen, times := map[any]bool{}, []float64{}
	for range int(marks) {
		b.eventually(shown + ` && ` + text + ` !== ""`) // each mark has a card
		seen[b.eval(`[...document.querySelectorAll(".mark")].indexOf(document.activeElement)`)] = true
		at, _ := b.eval(`Number(document.activeElement.dataset.at)`).(float64)
		times = append(times, at)
		b.press("ArrowRight")
	}
	if len(seen) != int(marks) || !slices.IsSorted(times) {
		t.Errorf("got %d of %v marks by the keyboard, at %v; want all, in the order of time", len(seen), marks, times)
	}
	b.press("Escape")
	for _, mark := range []string{"forward", "key", "belief", "wait"} {
		x, y := b.point(`document.querySelector("#run-0 .mark.` + mark + `")`)
		b.mouse(x, y, false)
		b.eventually(shown + ` && ` + text + ` !== ""`)
		b.mouse(2, 2, false)
	}
}

func access(t *testing.T, b *browser) {
	t.Helper()
	for what, script := range map[string]string{
		"marks without a name":    `[...document.querySelectorAll(".mark")].filter((m) => !m.getAttribute("aria-label")).length`,
		"pictures without a name": `[...document.querySelectorAll("svg.time")].filter((s) => !s.getAttribute("aria-labelledby").split(" ").every((id) => document.getElementById(id))).length`,
		"ids that are used twice": `(() => { const ids = [...document.querySelectorAll("[id]")].map((e) => e.id); return ids.length - new Set(ids).size; })()`,
		"buttons without a name":  `[...document.querySelectorAll("button")].filter((e) => !e.getAttribute("aria-label")).length`,
	} {
		if n := b.eval(script); n != 0.0 {
			t.Errorf("got %v %s", n, what)
		}
	}
}
