// Package pagetest looks at the pages that package chaos writes with a browser:
// Chromium, over the pipe of its debugging protocol, so that no library is
// needed. It has a module of its own since a browser is much to ask for
// the root module's tests.
package pagetest
