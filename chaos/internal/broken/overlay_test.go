package broken_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// root is the root module's directory, as seen from a test of this package.
const root = "../../.."

// build builds this package's tests over the broken protocols, into dir.
func build(ctx context.Context, dir string) (binary string, err error) {
	overlay, err := overlayOf(ways, dir)
	if err != nil {
		return "", err
	}
	return buildOver(ctx, overlay, dir, ".")
}

// buildOver builds the tests of a package over an overlay, into dir.
func buildOver(ctx context.Context, overlay, dir, pkg string) (binary string, err error) {
	binary = filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+".broken.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the broken protocols: %w\n%s", err, out)
	}
	return binary, nil
}

// overlayOf writes an overlay that has these ways, into dir.
func overlayOf(ways []way, dir string) (overlay string, err error) {
	top, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	files := map[string]string{}
	for _, name := range append(touched(ways), scripts+"scripts.go") {
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			return "", err
		}
		files[name] = string(text)
	}
	if err := apply(ways, files); err != nil {
		return "", err
	}
	hook := []way{{edits: []edit{{scripts + "scripts.go", "	body = included.Replace(body)\n", `	body = brokenScript("tombstone", included.Replace(brokenScript(name, body)))
`}}}}
	if err := apply(hook, files); err != nil {
		return "", err
	}
	if err := addPauses(top, files); err != nil {
		return "", err
	}
	for name := range maps.Clone(files) {
		if folder := filepath.Dir(name); filepath.Ext(name) == ".go" {
			files[filepath.Join(folder, "broken_by_hand.go")] = condition(packageOf(folder))
		}
	}
	files[scripts+"broken_scripts.go"] = scriptEdits(ways)
	replace := map[string]string{}
	for name, text := range files {
		if filepath.Ext(name) != ".go" {
			continue
		}
		replace[filepath.Join(top, name)] = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// packageOf is the package in a folder of the module.
func packageOf(folder string) string {
	if folder == "." {
		return "redlock"
	}
	return filepath.Base(folder)
}
