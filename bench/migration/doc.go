// Package migration has the code of docs/MIGRATION.md, and the code that it takes the
// place of, so that both compile. It runs old and new beside each other on real masters.
package migration
