// Package adaptertest holds package adapters against the packages it is for, and
// runs them. It is a module of its own, so that no importer of redlock inherits
// them.
package adaptertest
