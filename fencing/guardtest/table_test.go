package guardtest_test

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
	"github.com/quorumkit/redlock/internal/testkit"
)

// table is one that somebody else has made under the guard's name.
type table struct {
	statements []string // {table} is its name
	fault      string   // what Migrate says of it; empty: nothing
}

func (s *store) tables() map[string]table {
	switch s.name {
	case "PostgreSQL":
		return map[string]table{
			"its own":          {[]string{s.guard.Migration()}, ""},
			"another text":     {[]string{"CREATE TABLE {table} (id bigserial, resource varchar(255) NOT NULL UNIQUE, token bigint, note text)"}, ""},
			"no key":           {[]string{"CREATE TABLE {table} (resource text, token bigint)"}, "not unique"},
			"index":            {[]string{"CREATE TABLE {table} (resource text, token bigint)", "CREATE INDEX ON {table} (resource)"}, "not unique"},
			"key of two":       {[]string{"CREATE TABLE {table} (resource text, token bigint, PRIMARY KEY (resource, token))"}, "not unique"},
			"part of the rows": {[]string{"CREATE TABLE {table} (resource text, token bigint)", "CREATE UNIQUE INDEX ON {table} (resource) WHERE token > 5"}, "not unique"},
			"expression":       {[]string{"CREATE TABLE {table} (resource text, token bigint)", "CREATE UNIQUE INDEX ON {table} (lower(resource))"}, "not unique"},
			"deferred":         {[]string{"CREATE TABLE {table} (resource text UNIQUE DEFERRABLE, token bigint)"}, "not unique"},
			"padded":           {[]string{"CREATE TABLE {table} (resource char(255) PRIMARY KEY, token bigint)"}, "resource is character"},
			"small token":      {[]string{"CREATE TABLE {table} (resource text PRIMARY KEY, token integer)"}, "token is integer"},
			"no token":         {[]string{"CREATE TABLE {table} (resource text PRIMARY KEY)"}, "token is missing"},
			"unlogged":         {[]string{"CREATE UNLOGGED TABLE {table} (resource text PRIMARY KEY, token bigint)"}, "unlogged"},
			"view":             {[]string{"CREATE VIEW {table} AS SELECT 'x'::text AS resource, 1::bigint AS token"}, "no ordinary table"},
			"collation": {[]string{
				"CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
				"CREATE TABLE {table} (resource text COLLATE nocase PRIMARY KEY, token bigint)",
			}, "collation"},
			"collation of the index": {[]string{
				"CREATE COLLATION IF NOT EXISTS nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
				"CREATE TABLE {table} (resource text, token bigint)", "CREATE UNIQUE INDEX ON {table} (resource COLLATE nocase)",
			}, "collation"},
		}
	case "SQLite":
		return map[string]table{
			"its own":          {[]string{s.guard.Migration()}, ""},
			"rows by number":   {[]string{"CREATE TABLE {table} (id integer PRIMARY KEY, Resource text UNIQUE, Token bigint, note)"}, ""},
			"no key":           {[]string{"CREATE TABLE {table} (resource text, token integer)"}, "not unique"},
			"index":            {[]string{"CREATE TABLE {table} (resource text, token integer)", "CREATE INDEX {table}_i ON {table} (resource)"}, "not unique"},
			"key of two":       {[]string{"CREATE TABLE {table} (resource text, token integer, PRIMARY KEY (resource, token))"}, "not unique"},
			"part of the rows": {[]string{"CREATE TABLE {table} (resource text, token integer)", "CREATE UNIQUE INDEX {table}_i ON {table} (resource) WHERE token > 5"}, "not unique"},
			"collation":        {[]string{"CREATE TABLE {table} (resource text COLLATE NOCASE PRIMARY KEY, token integer)"}, "not unique"},
			"numbers":          {[]string{"CREATE TABLE {table} (resource numeric PRIMARY KEY, token integer)"}, "resource is numeric"},
			"token as text":    {[]string{"CREATE TABLE {table} (resource text PRIMARY KEY, token text)"}, "token is text"},
			"no token":         {[]string{"CREATE TABLE {table} (resource text PRIMARY KEY)"}, "token is missing"},
			"view":             {[]string{"CREATE VIEW {table} AS SELECT 'x' AS resource, 1 AS token"}, "view"},
		}
	}
	return map[string]table{
		"its own":       {[]string{s.guard.Migration()}, ""},
		"more columns":  {[]string{"CREATE TABLE {table} (resource varbinary(300) UNIQUE, token bigint unsigned, note text, KEY (token)) ENGINE=InnoDB"}, ""},
		"no key":        {[]string{"CREATE TABLE {table} (resource varbinary(255), token bigint) ENGINE=InnoDB"}, "not unique"},
		"index":         {[]string{"CREATE TABLE {table} (resource varbinary(255), token bigint, KEY (resource)) ENGINE=InnoDB"}, "not unique"},
		"key of two":    {[]string{"CREATE TABLE {table} (resource varbinary(255), token bigint, PRIMARY KEY (resource, token)) ENGINE=InnoDB"}, "not unique"},
		"key of a part": {[]string{"CREATE TABLE {table} (resource varbinary(255), token bigint, UNIQUE KEY (resource(5))) ENGINE=InnoDB"}, "not unique"},
		"two keys":      {[]string{"CREATE TABLE {table} (resource varbinary(255) PRIMARY KEY, token bigint, UNIQUE KEY number (token)) ENGINE=InnoDB"}, "unique key number"},
		"MyISAM":        {[]string{"CREATE TABLE {table} (resource varbinary(255) PRIMARY KEY, token bigint) ENGINE=MyISAM"}, "engine is MyISAM"},
		"MEMORY":        {[]string{"CREATE TABLE {table} (resource varbinary(255) PRIMARY KEY, token bigint) ENGINE=MEMORY"}, "engine is MEMORY"},
		"text":          {[]string{"CREATE TABLE {table} (resource varchar(255) PRIMARY KEY, token bigint) ENGINE=InnoDB"}, "resource is varchar"},
		"short names":   {[]string{"CREATE TABLE {table} (resource varbinary(64) PRIMARY KEY, token bigint) ENGINE=InnoDB"}, "resource is varbinary(64)"},
		"small token":   {[]string{"CREATE TABLE {table} (resource varbinary(255) PRIMARY KEY, token int) ENGINE=InnoDB"}, "token is int"},
		"no token":      {[]string{"CREATE TABLE {table} (resource varbinary(255) PRIMARY KEY) ENGINE=InnoDB"}, "token is missing"},
		"view":          {[]string{"CREATE VIEW {table} AS SELECT 1 AS resource, 2 AS token"}, "view"},
	}
}

func TestMigrateRefusesATableThatCannotGuard(t *testing.T) {
	for _, s := range stores() {
		t.Run(s.name, func(t *testing.T) {
			s.prepare(t)
			for name, table := range s.tables() {
				t.Run(name, func(t *testing.T) {
					s.exec(t, "DROP TABLE "+s.fences)
					for _, statement := range table.statements {
						s.exec(t, strings.ReplaceAll(statement, "{table}", s.fences))
					}
					for range 2 { // nothing was repaired by the first
						err := s.guard.Migrate(t.Context(), s.db)
						switch {
						case table.fault == "" && err != nil:
							t.Errorf("got %v; want nil", err)
						case table.fault != "" && (!errors.Is(err, fencing.ErrBadTable) || !strings.Contains(err.Error(), table.fault)):
							t.Errorf("got %v; want ErrBadTable, and %q", err, table.fault)
						case err != nil:
							t.Log(err)
						}
					}
					if strings.HasPrefix(table.statements[0], "CREATE VIEW") {
						s.exec(t, "DROP VIEW "+s.fences)
						s.exec(t, s.guard.Migration())
					}
				})
			}
		})
	}
}

// shown is a token that was put to the guard.
type shown struct {
	resource string
	token    redlock.Token
}

// This is the control for the test above: what such tables let pass.
func TestATableThatCannotGuardLetsAStaleTokenPass(t *testing.T) {
	for _, tt := range []struct {
		store, table string
		before       []shown
		stale        redlock.Token
	}{
		{"MariaDB", "no key", []shown{{account, 5}, {account, 9}}, 7},
		{"MySQL", "no key", []shown{{account, 5}, {account, 9}}, 7},         // it reads the first row, with 5
		{"MariaDB", "two keys", []shown{{"account:2", 9}, {account, 9}}, 7}, // the second 9 was kept in the row of account:2
	} {
		t.Run(tt.store+"/"+tt.table, func(t *testing.T) {
			s := stores()[slices.IndexFunc(stores(), func(s *store) bool { return s.name == tt.store })]
			s.prepare(t)
			s.exec(t, "DROP TABLE "+s.fences)
			s.exec(t, strings.ReplaceAll(s.tables()[tt.table].statements[0], "{table}", s.fences))
			show := func(resource string, token redlock.Token) error {
				return s.guard.Write(t.Context(), s.db, nil, resource, token, func(*sql.Tx) error { return nil })
			}
			for _, w := range tt.before {
				testkit.Must(t, show(w.resource, w.token))
			}
			if err := show(account, tt.stale); err != nil {
				t.Errorf("got %v; want the stale token %d accepted", err, tt.stale)
			}
		})
	}
}

func TestMigrateNeedsNoMorePrivilegesThanTheGuard(t *testing.T) {
	s := stores()[1]
	s.prepare(t)
	s.exec(t, "CREATE USER IF NOT EXISTS plain")
	s.exec(t, "GRANT SELECT, INSERT, UPDATE ON "+s.fences+" TO plain")
	plain := openDB(t, "mysql", strings.Replace(dsnOf(t, mariadb), "root@", "plain@", 1))
	if err := s.guard.Migrate(t.Context(), plain); err != nil {
		t.Errorf("got %v; want nil", err)
	}
}

// A table is looked up where the session would find it: in its own database, or in
// the one that is named.
func TestMigrateLooksAtTheTableThatTheGuardUses(t *testing.T) {
	const bad = "CREATE OR REPLACE TABLE %s (resource varbinary(255), token bigint) ENGINE=MyISAM"
	s := stores()[1]
	s.prepare(t)
	s.exec(t, "CREATE DATABASE IF NOT EXISTS app2")
	s.exec(t, "CREATE DATABASE IF NOT EXISTS App")
	for _, other := range []string{"app2.looked", "App.looked", "app.Looked"} {
		s.exec(t, strings.Replace(bad, "%s", other, 1))
	}
	inApp := openDB(t, "mysql", dsnOf(t, mariadb)+"app")
	for name, db := range map[string]*sql.DB{"looked": inApp, "app.looked": s.db} {
		guard, err := fencing.NewSQL(s.dialect, fencing.WithTable(name))
		testkit.Must(t, err)
		if err := guard.Migrate(t.Context(), db); err != nil {
			t.Errorf("%s: got %v; want nil", name, err)
		}
	}
}
