package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/quorumkit/redlock/internal/cli"
)

func versionCommand(a *app) cli.Command {
	return cli.Command{
		Name: "version", Synopsis: "[flags]", Summary: "show which redlock this is",
		About: `Shows what the build recorded: the version of the module, the Go that compiled it, and
where it was built in a clone the commit, its time, and whether files differed from it. What
was not recorded is left out; "(devel)" is a build without a version.`,
		Define: func(*flag.FlagSet) cli.Action {
			return func(_ context.Context, args []string) error {
				if err := cli.Exactly(0, args, "no arguments"); err != nil {
					return err
				}
				return a.version(built(debug.ReadBuildInfo()))
			}
		},
	}
}

// build is what is known of this program, as --json shows it.
type build struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Modified bool   `json:"modified,omitempty"` // files differed from the commit
}

// built reads what the compiler recorded, if anything.
func built(info *debug.BuildInfo, ok bool) build {
	b := build{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) version(b build) error {
	if a.JSON {
		return a.Answer(b)
	}
	p := a.NewPage()
	p.WriteString(b.text())
	return a.Flush(p)
}

// text is what is known, for people.
func (b build) text() string {
	text := fmt.Sprintf("redlock %s\n%s %s\n", b.Version, b.Go, b.Platform)
	if b.Revision == "" {
		return text
	}
	text += strings.TrimSpace("commit " + b.Revision + " " + b.Time)
	if b.Modified {
		text += " modified"
	}
	return text + "\n"
}
