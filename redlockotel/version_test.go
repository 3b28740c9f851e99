package redlockotel

import (
	"runtime/debug"
	"testing"
)

func TestTheScopesVersionIsThatOfTheModuleInTheBuild(t *testing.T) {
	redlock := &debug.Module{Path: "github.com/quorumkit/redlock", Version: "v0.8.0"}
	ours := func(version string, instead *debug.Module) *debug.Module {
		return &debug.Module{Path: scope, Version: version, Replace: instead}
	}
	for _, tt := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"an importer's dependency", debug.BuildInfo{Main: debug.Module{Path: "example.org/app", Version: "v1.0.0"}, Deps: []*debug.Module{redlock, ours("v0.9.0", nil)}}, "v0.9.0"},
		{"replaced by a fork", debug.BuildInfo{Deps: []*debug.Module{ours("v0.9.0", &debug.Module{Path: "example.org/fork", Version: "v0.9.1"})}}, "v0.9.1"},
		{"replaced by a directory", debug.BuildInfo{Deps: []*debug.Module{ours("v0.9.0", &debug.Module{Path: "../redlock/redlockotel"})}}, "(devel)"},
		{"the module itself", debug.BuildInfo{Main: *ours("(devel)", nil)}, "(devel)"},
		{"a build without modules", debug.BuildInfo{}, "(devel)"},
	} {
		if got := versionIn(&tt.info); got != tt.want {
			t.Errorf("%s: got %q; want %q", tt.name, got, tt.want)
		}
	}
}
