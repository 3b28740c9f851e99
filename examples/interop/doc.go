// Package interop holds redlock against programs that run it or take what it tells: an
// OpenTelemetry collector, systemd and Kubernetes. It is a module of its own, so that no
// importer of redlock inherits them.
package interop
