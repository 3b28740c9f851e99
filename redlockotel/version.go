package redlockotel

import "runtime/debug"

// version is that of this module in the program that imports it, for the
// instrumentation scope: "v0.9.0", or "(devel)" where the build does not say.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unversioned
	}
	return versionIn(info)
}

const unversioned = "(devel)"

// versionIn finds the module among what a program was built of. Where another one
// takes its place, the version is that one's, if it has any.
func versionIn(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != scope {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version != "" {
			return m.Version
		}
	}
	return unversioned
}
