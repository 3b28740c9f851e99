package pagetest_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumkit/redlock/internal/testkit"
)

// patience bounds everything that the browser is asked: a busy machine is slow.
const patience = 90 * time.Second

// message is one of the debugging protocol, either way.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// browser is a Chromium with one page.
type browser struct {
	t       *testing.T
	to      io.Writer
	session string

	mu       sync.Mutex // guards the rest
	next     int
	waiting  map[int]chan message
	requests []string // addresses that the page asked for
	errors   []string // what its console says is wrong
}

// open starts a browser and shows it a file. Without a browser the test is
// skipped.
func open(t *testing.T, file string) *browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("needs a browser: there is no chromium in PATH")
	}
	b := start(t, program)
	b.session = ""
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	b.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	b.eventually("document.readyState === 'complete' && location.protocol === 'file:'")
	return b
}

// start starts the program with a pipe in either direction.
func start(t *testing.T, program string) *browser {
	t.Helper()
	in, toIt, err := os.Pipe()
	testkit.Must(t, err)
	fromIt, out, err := os.Pipe()
	testkit.Must(t, err)
	profile := filepath.Join(t.TempDir(), "profile")
	cmd := exec.CommandContext(t.Context(), program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+profile)
	cmd.ExtraFiles = []*os.File{in, out} // its descriptors 3 and 4
	testkit.Must(t, cmd.Start())
	testkit.Must(t, errors.Join(in.Close(), out.Close()))
	b := &browser{t: t, to: toIt, waiting: map[int]chan message{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(fromIt)
	}()
	t.Cleanup(func() {
		_, _ = io.WriteString(toIt, `{"id":1000000,"method":"Browser.close"}`+"\x00")
		select {
		case <-read: // it has closed its end
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait() // however it ends
		_ = errors.Join(toIt.Close(), fromIt.Close())
		<-read
		// Its last child processes may still write there.
		for deadline := time.Now().Add(10 * time.Second); os.RemoveAll(profile) != nil && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
		}
	})
	return b
}

// read takes what the browser says, up to the end of the pipe.
func (b *browser) read(from io.Reader) {
	lines := bufio.NewReader(from)
	for {
		text, err := lines.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch m.Method {
		case "":
			if ch := b.waiting[m.ID]; ch != nil {
				delete(b.waiting, m.ID)
				ch <- m
			}
		case "Network.requestWillBeSent":
			b.requests = append(b.requests, dig(m.Params, "request", "url"))
		case "Runtime.exceptionThrown":
			b.errors = append(b.errors, string(text))
		case "Log.entryAdded":
			if dig(m.Params, "entry", "level") == "error" {
				b.errors = append(b.errors, dig(m.Params, "entry", "text"))
			}
		case "Runtime.consoleAPICalled":
			b.errors = append(b.errors, string(text))
		}
		b.mu.Unlock()
	}
}

// dig finds a string in nested objects.
func dig(v any, path ...string) string {
	for _, key := range path {
		m, _ := v.(map[string]any)
		v = m[key]
	}
	s, _ := v.(string)
	return s
}

// call asks the browser something.
func (b *browser) call(method string, params, into any) {
	b.t.Helper()
	answer := make(chan message, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.waiting[id] = answer
	b.mu.Unlock()
	text, err := json.Marshal(message{ID: id, SessionID: b.session, Method: method, Params: params})
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error.Message)
		}
		if into != nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(patience):
		b.t.Fatalf("%s: no answer after %v", method, patience)
	}
}

// eval runs a script in the page and returns what it gives, as JSON reads it.
func (b *browser) eval(script string) any {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	b.call("Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%s: %v", script, out.ExceptionDetails)
	}
	return out.Result.Value
}

// eventually waits until a script gives true.
func (b *browser) eventually(script string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); b.eval(script) != true; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: not true after %v", script, patience)
		}
	}
}

// view sets the size of the window, the scheme, and whether it is a phone.
func (b *browser) view(width, height int, scheme string, phone bool) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}, nil)
	b.call("Emulation.setTouchEmulationEnabled", map[string]any{"enabled": phone}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.eventually(fmt.Sprintf("innerWidth === %d && matchMedia('(prefers-color-scheme: %s)').matches", width, scheme))
}

// point is the middle of what a script finds, brought into view: two frames
// later, since a picture that scrolls closes its card.
func (b *browser) point(element string) (x, y float64) {
	b.t.Helper()
	b.eval(`window.still = false; ` + element + `.scrollIntoView({block: "center", inline: "center"});
		requestAnimationFrame(() => requestAnimationFrame(() => { window.still = true; }))`)
	b.eventually(`window.still`)
	at, ok := b.eval(`(() => { const e = ` + element + `;
		const r = (e.querySelector("rect, circle, path") || e).getBoundingClientRect();
		return {x: r.left + Math.min(r.width / 2, 30), y: r.top + r.height / 2}; })()`).(map[string]any)
	if !ok {
		b.t.Fatalf("%s: got no place", element)
	}
	return at["x"].(float64), at["y"].(float64)
}

// mouse moves there, and clicks if asked to.
func (b *browser) mouse(x, y float64, click bool) {
	b.t.Helper()
	types := []string{"mouseMoved"}
	if click {
		types = append(types, "mousePressed", "mouseReleased")
	}
	for _, typ := range types {
		params := map[string]any{"type": typ, "x": x, "y": y, "pointerType": "mouse"}
		if typ != "mouseMoved" {
			params["button"], params["clickCount"] = "left", 1
		}
		b.call("Input.dispatchMouseEvent", params, nil)
	}
}

// tap touches the screen there.
func (b *browser) tap(x, y float64) {
	b.t.Helper()
	b.call("Input.dispatchTouchEvent", map[string]any{"type": "touchStart", "touchPoints": []map[string]float64{{"x": x, "y": y}}}, nil)
	b.call("Input.dispatchTouchEvent", map[string]any{"type": "touchEnd", "touchPoints": []any{}}, nil)
}

// press presses keys by their names.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		params := map[string]any{"key": key, "code": key}
		if key == "Enter" {
			params["text"], params["windowsVirtualKeyCode"] = "\r", 13
		}
		for _, typ := range []string{"keyDown", "keyUp"} {
			params["type"] = typ
			b.call("Input.dispatchKeyEvent", params, nil)
		}
	}
}

// keep writes what is to be seen into the directory that failed tests' pages go
// to, for human eyes.
func (b *browser) keep(name string) {
	b.t.Helper()
	dir := os.Getenv("REDLOCK_CHAOS_PAGES")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(b.t.Name(), "/", "-")+"-"+name+".png"), png, 0o600)
	}
	if err != nil {
		b.t.Error(err)
	}
}
