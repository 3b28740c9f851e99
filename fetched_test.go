//go:build unix

package redlock_test

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumkit/redlock/internal/testkit"
)

// nextTag is a version that no go.mod of the tree asks for before `make release`.
const nextTag = "v0.999.0"

// A consumer fetches each module of the tree as the pages say: from a proxy, once
// `make release` has prepared the tags; before the first tag, from a clone.
func TestEveryModuleCanBeFetched(t *testing.T) {
	testkit.Unraced(t) // and not beside others: it compiles
	c := newClone(t)
	t.Run("before a tag, from a clone", func(t *testing.T) {
		dir := c.consumer(t)
		c.run(t, dir, blocks(t, "docs/FAQ.md", "sh")[1])
		c.run(t, dir, "go list -deps .")
	})
	for _, module := range c.release(t) {
		t.Run(module, func(t *testing.T) {
			dir := c.consumer(t) // anew: another module's requirements would help
			c.run(t, dir, "go get "+module+"/...@"+nextTag)
			c.run(t, dir, "go list -deps "+module+"/...")
		})
	}
	t.Run("redlockotel by its page", func(t *testing.T) {
		dir := c.consumer(t)
		c.run(t, dir, blocks(t, "docs/OBSERVING.md", "sh")[0])
		c.run(t, dir, "go build .")
	})
	t.Run("a copy of examples/yourcode by its page", func(t *testing.T) {
		c.run(t, c.dir, blocks(t, "docs/CHAOS.md", "sh")[1])
	})
}

// clone is a copy of the tree, and what the go command of its consumers goes by.
type clone struct {
	dir   string
	proxy string // serves what release publishes
	env   []string
}

// newClone copies the tree. Modules of others come from the local module cache. What it
// lacks is fetched here first, and checked against the tree's go.sum.
func newClone(t *testing.T) *clone {
	t.Helper()
	top := t.TempDir()
	c := &clone{dir: filepath.Join(top, "redlock"), proxy: filepath.Join(top, "proxy")}
	must(t, os.Mkdir(c.dir, 0o700))
	must(t, os.Mkdir(c.proxy, 0o700))
	shell(t, ".", "tar -c --exclude=./.git --exclude=./.cache . | tar -x -C "+c.dir)
	for _, dir := range c.modules(t) {
		shell(t, dir, "go mod graph >/dev/null && go list -deps -test ./... >/dev/null",
			"GOPROXY="+os.Getenv("GOPROXY"), "GOFLAGS="+os.Getenv("GOFLAGS"))
	}
	cache := strings.TrimSpace(shell(t, ".", "go env GOMODCACHE"))
	c.env = []string{
		"GOPROXY=file://" + c.proxy + ",file://" + cache + "/cache/download,off", "GOSUMDB=off",
		"GOMODCACHE=" + filepath.Join(top, "cache"),
		"GOFLAGS=-modcacherw -trimpath", // removable; and built once, wherever the cache is
		"REDLOCK_TEST=quick",
	}
	return c
}

// modules are the directories of the tree's modules.
func (c *clone) modules(t *testing.T) []string {
	t.Helper()
	return strings.Fields(shell(t, c.dir, "find $PWD -name go.mod -exec dirname {} +"))
}

func (c *clone) run(t *testing.T, dir, lines string) {
	t.Helper()
	shell(t, dir, "set -e\n"+lines, c.env...)
}

// consumer makes a module beside the clone, in the place of the last one. Its program uses
// redlockotel as its page says.
func (c *clone) consumer(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(filepath.Dir(c.dir), "consumer")
	must(t, os.RemoveAll(dir))
	must(t, os.Mkdir(dir, 0o700))
	c.run(t, dir, "go mod init example.com/consumer")
	for _, use := range blocks(t, "docs/OBSERVING.md", "go") {
		if strings.Contains(use, "redlockotel.New()") {
			program(t, dir, fmt.Sprintf(otelProgram, use))
			return dir
		}
	}
	t.Fatal("docs/OBSERVING.md has no block that uses redlockotel")
	return ""
}

const otelProgram = `package main

import (
	"context"
	"log"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/redlockotel"
)

func main() {
	ctx, urls := context.Background(), []string{"127.0.0.1:7001"}
	%s
	if err != nil {
		log.Fatal(err)
	}
	stop()
}
`

// release prepares the tags in another copy, by the Makefile, and serves the modules that
// it names.
func (c *clone) release(t *testing.T) []string {
	t.Helper()
	var published []string
	tagged := c.dir + "-" + nextTag
	said := shell(t, c.dir, "cp -R . "+tagged+" && cd "+tagged+" && make release VERSION="+nextTag)
	for _, tag := range regexp.MustCompile(`(?m)^git tag (.*)`+nextTag+`$`).FindAllStringSubmatch(said, -1) {
		published = append(published, c.publish(t, filepath.Join(tagged, tag[1])))
	}
	if want := len(c.modules(t)) - 1; len(published) != want { // examples/yourcode is to be copied
		t.Fatalf("got tags of %d modules; want %d:\n%s", len(published), want, said)
	}
	return published
}

// publish writes what a proxy serves of a module: see https://go.dev/ref/mod#goproxy-protocol.
func (c *clone) publish(t *testing.T, dir string) string {
	t.Helper()
	mod := read(t, filepath.Join(dir, "go.mod"))
	module := regexp.MustCompile(`(?m)^module (.*)$`).FindStringSubmatch(mod)[1]
	at := filepath.Join(c.proxy, module, "@v")
	must(t, os.MkdirAll(at, 0o700))
	for name, text := range map[string]string{
		"list": nextTag, nextTag + ".mod": mod, nextTag + ".info": `{"Version":"` + nextTag + `"}`,
	} {
		must(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
	}
	f, err := os.Create(filepath.Join(at, nextTag+".zip"))
	must(t, err)
	defer f.Close()
	z := zip.NewWriter(f)
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: module + "@" + nextTag + filepath.ToSlash(strings.TrimPrefix(path, dir))})
		if err == nil {
			_, err = w.Write([]byte(read(t, path)))
		}
		return err
	}))
	must(t, z.Close())
	return module
}
