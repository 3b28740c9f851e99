// Package migration has the code of docs/MIGRATION.md, so that it compiles, and
// runs old and new beside each other on real masters.
package migration
