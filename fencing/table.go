package fencing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/quorumkit/redlock"
)

// Migration returns the statement that creates the guard's table, for the tool
// that runs your migrations. To run it twice does no harm. A table that is there
// stays as it is: see Alterations.
func (g *SQL) Migration() string { return g.named(g.dialect.create) }

// Migrate runs Migration on db, and looks whether the table that is then there
// can guard. A table that was there is not altered, and needs no privilege to
// create one, also when another process creates it at the same moment: run
// Migrate also where a tool of yours makes the table. Under WithShared it also
// runs those of Alterations that a table still needs; to a table with the columns
// it does nothing, and needs no privilege to alter it.
//
// It returns ErrBadTable for one that would let a stale token pass, or would not
// keep what it is told: resource is not unique, compares by a collation that
// takes two names for one, or is cut; token is too small a number; the engine has
// no transactions; the table is a view, temporary or unlogged; under WithShared, a
// column of shared tokens is too small a number, or does not begin with 0. The
// message names each fault and its remedy. Any other error is the driver's.
func (g *SQL) Migrate(ctx context.Context, db *sql.DB) error {
	if err := g.create(ctx, db); err != nil {
		return fmt.Errorf("fencing: migrate %s: %w", g.table, err)
	}
	if err := g.sound(ctx, db, g.dialect.faults); err != nil || !g.shared {
		return err
	}
	if err := g.addColumns(ctx, db); err != nil {
		return fmt.Errorf("fencing: migrate %s: %w", g.table, err)
	}
	var queries []string
	for _, column := range sharedColumns {
		queries = append(queries, strings.ReplaceAll(g.dialect.columnFault, "{column}", column))
	}
	return g.sound(ctx, db, queries)
}

// sound returns an error that names every fault that the queries find.
func (g *SQL) sound(ctx context.Context, db *sql.DB, queries []string) error {
	var faults []string
	for _, query := range queries {
		found, err := texts(ctx, db, g.named(query))
		if err != nil {
			return fmt.Errorf("fencing: migrate %s: %w", g.table, err)
		}
		faults = append(faults, found...)
	}
	if len(faults) > 0 {
		return fmt.Errorf("fencing: migrate %s: %w, and was left as it is: %s", g.table, ErrBadTable, strings.Join(faults, "; "))
	}
	return nil
}

// create creates the table unless it is there.
func (g *SQL) create(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, g.Migration())
	if err == nil {
		return nil
	}
	// PostgreSQL lets two creators race in spite of IF NOT EXISTS, and refuses
	// those without the privilege before it looks: what counts is the table.
	var token int64
	if there := db.QueryRowContext(ctx, g.peek, "").Scan(&token); there == nil || errors.Is(there, sql.ErrNoRows) {
		return nil
	}
	return err
}

// texts returns the rows of a query for one text.
func texts(ctx context.Context, db *sql.DB, query string) ([]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		found = append(found, text)
	}
	return found, rows.Err()
}

// Faults that make a table unable to guard, as queries of the database's catalogue: each
// row names a fault and its remedy. {schema} and {name} are the parts of {table},
// letters and digits, the first one empty if the table was named without.

// notUnique is the remedy of a table that may have two rows for one resource.
const notUnique = `resource is not unique in it, byte for byte: keep the row with the largest token of each resource, and ALTER TABLE {table} ADD PRIMARY KEY (resource)`

// A unique index that is partial, deferred or of an expression is none for ON
// CONFLICT. A collation that is not deterministic takes different names for one;
// the catalogue knows them since version 12.
var faultsPostgreSQL = []string{
	`SELECT 'it is no ordinary table: rename it away, and migrate again'
FROM pg_class WHERE oid = '{table}'::regclass AND relkind NOT IN ('r', 'p')`,
	`SELECT CASE relpersistence WHEN 'u' THEN 'it is unlogged, and a crash empties it: ALTER TABLE {table} SET LOGGED'
	ELSE 'it is temporary, and other sessions have another: DROP it, and migrate again' END
FROM pg_class WHERE oid = '{table}'::regclass AND relpersistence <> 'p'`,
	`SELECT 'its column resource is ' || coalesce(max(type), 'missing') || ': make it text NOT NULL'
FROM ` + columnsPostgreSQL + ` WHERE attname = 'resource' HAVING coalesce(max(type), '') NOT IN ('text', 'character varying')`,
	`SELECT 'its column token is ' || coalesce(max(type), 'missing') || ': make it bigint NOT NULL'
FROM ` + columnsPostgreSQL + ` WHERE attname = 'token' HAVING coalesce(max(type), '') <> 'bigint'`,
	`SELECT DISTINCT 'the collation ' || collname || ' of resource takes different names for one: ALTER TABLE {table} ALTER resource TYPE text COLLATE "C", and its indexes'
FROM pg_collation c WHERE to_jsonb(c) ->> 'collisdeterministic' = 'false' AND (
	oid IN (SELECT attcollation FROM ` + columnsPostgreSQL + ` WHERE attname = 'resource') OR
	oid IN (SELECT indcollation[0] FROM pg_index WHERE indrelid = '{table}'::regclass AND indisunique))`,
	`SELECT '` + notUnique + `' WHERE NOT EXISTS (
	SELECT 1 FROM pg_index JOIN ` + columnsPostgreSQL + ` ON indkey::text = attnum::text
	WHERE indrelid = '{table}'::regclass AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND attname = 'resource')`,
}

// Programs that know no shared tokens leave these columns out of what they insert.
const columnFaultPostgreSQL = `SELECT 'its column {column} is ' || coalesce(max(type), 'missing') || ': make it bigint NOT NULL DEFAULT 0'
FROM ` + columnsPostgreSQL + ` WHERE attname = '{column}'
HAVING coalesce(max(type), '') <> 'bigint' OR NOT bool_and(attnotnull) OR coalesce(max(start), '') NOT IN ('0', '''0''::bigint')`

const columnsPostgreSQL = `(SELECT attname, attnum, attcollation, attnotnull, format_type(atttypid, NULL) AS type,
	(SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = attrelid AND adnum = attnum) AS start
	FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped) AS columns`

// ON DUPLICATE KEY takes any unique key: by one of another column it would keep
// the token in another resource's row. A number that is too small is cut without
// an error outside of strict mode, and a token that is cut is accepted again.
var faultsMySQL = []string{
	`SELECT CONCAT('it is a ', LOWER(table_type), ': rename it away, and migrate again')
FROM information_schema.tables WHERE ` + thisMySQL + ` AND table_type <> 'BASE TABLE'`,
	`SELECT CONCAT('its engine is ', engine, ', the guard needs the row locks and the rollback of InnoDB: ALTER TABLE {table} ENGINE=InnoDB')
FROM information_schema.tables WHERE ` + thisMySQL + ` AND table_type = 'BASE TABLE' AND engine <> 'InnoDB'`,
	`SELECT CONCAT('its column resource is ', COALESCE(MAX(column_type), 'missing'), ': make it varbinary(255) NOT NULL')
FROM information_schema.columns WHERE ` + thisMySQL + ` AND column_name = 'resource'
HAVING COALESCE(MAX(data_type), '') <> 'varbinary' OR MAX(character_maximum_length) < 255`,
	`SELECT CONCAT('its column token is ', COALESCE(MAX(column_type), 'missing'), ': make it bigint NOT NULL')
FROM information_schema.columns WHERE ` + thisMySQL + ` AND column_name = 'token'
HAVING COALESCE(MAX(data_type), '') <> 'bigint'`,
	`SELECT '` + notUnique + `' FROM DUAL WHERE NOT EXISTS (
	SELECT index_name FROM information_schema.statistics WHERE ` + thisMySQL + ` AND non_unique = 0
	GROUP BY index_name HAVING COUNT(*) = 1 AND MAX(column_name) = 'resource' AND COUNT(sub_part) = 0)`,
	`SELECT CONCAT('its unique key ', index_name, ' is not that of resource: ALTER TABLE {table} DROP INDEX ', index_name)
FROM information_schema.statistics WHERE ` + thisMySQL + ` AND non_unique = 0
GROUP BY index_name HAVING COALESCE(SUM(column_name = 'resource'), 0) = 0 OR COUNT(sub_part) > 0`,
}

const columnFaultMySQL = `SELECT CONCAT('its column {column} is ', COALESCE(MAX(column_type), 'missing'), ': make it bigint NOT NULL DEFAULT 0')
FROM information_schema.columns WHERE ` + thisMySQL + ` AND column_name = '{column}'
HAVING COALESCE(MAX(data_type), '') <> 'bigint' OR MAX(is_nullable) <> 'NO' OR COALESCE(MAX(column_default), '') <> '0'`

// thisMySQL finds the table: the catalogue's columns may compare without regard to
// case where the tables' names do not.
const thisMySQL = `table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{name}' AND (@@lower_case_table_names > 0 OR
	CAST(table_name AS BINARY) = CAST('{name}' AS BINARY) AND
	CAST(table_schema AS BINARY) = CAST(COALESCE(NULLIF('{schema}', ''), DATABASE()) AS BINARY))`

// A column of another affinity would turn the name "01" into the number 1, and
// compare tokens as text.
var faultsSQLite = []string{
	`SELECT 'it is a ' || type || ' of ' || schema || ': rename it away, and migrate again'
FROM pragma_table_list('{name}') WHERE (type <> 'table' OR schema = 'temp') AND lower(schema) IN (lower('{schema}'), iif('{schema}' = '', 'main', ''), iif('{schema}' = '', 'temp', ''))`,
	`SELECT 'its column resource is ' || coalesce(max(lower(type)), 'missing') || ': make it text NOT NULL'
FROM ` + columnsSQLite + ` WHERE lower(name) = 'resource' HAVING coalesce(max(upper(type)), '') <> 'TEXT'`,
	`SELECT 'its column token is ' || coalesce(max(lower(type)), 'missing') || ': make it integer NOT NULL'
FROM ` + columnsSQLite + ` WHERE lower(name) = 'token' HAVING coalesce(max(upper(type)), '') NOT IN ('INTEGER', 'INT', 'BIGINT')`,
	`SELECT 'resource is not unique in it, byte for byte: rename it away, migrate again, and copy the largest token of each resource' WHERE NOT EXISTS (
	SELECT 1 FROM pragma_index_list('{name}', nullif('{schema}', '')) AS list WHERE "unique" AND NOT partial AND (
		SELECT count(*) = 1 AND min(lower(name) = 'resource' AND coll = 'BINARY')
		FROM pragma_index_xinfo(list.name, nullif('{schema}', '')) WHERE key))`,
}

const columnFaultSQLite = `SELECT 'its column {column} is ' || coalesce(max(lower(type)), 'missing') || ': make it integer NOT NULL DEFAULT 0'
FROM ` + columnsSQLite + ` WHERE lower(name) = '{column}'
HAVING coalesce(max(upper(type)), '') NOT IN ('INTEGER', 'INT', 'BIGINT') OR max("notnull") = 0 OR coalesce(max(dflt_value), '') <> '0'`

const columnsSQLite = `pragma_table_xinfo('{name}', nullif('{schema}', ''))`

// The columns of shared tokens. token is the larger of the two numbers, as guards
// without WithShared compare it: they refuse an exclusive holder after a newer sharer
// as well. While token is more than shared, it is the exclusive number. Else
// before_shared is: the largest exclusive token that was seen before shared.
var sharedColumns = []string{"shared", "before_shared"}

type sharedOption struct{}

func (sharedOption) applySQL(g *SQL) { g.shared = true }

// WithShared makes the guard take tokens of shared holds, and keep two numbers for
// each resource (see Seen). The table needs two columns more: Migrate adds them,
// or a tool of yours with Alterations. Without it the guard keeps one number, uses
// no other column, and answers a shared token with ErrShared.
//
// Guards with and without it may use one table. One without is as exact about
// exclusive tokens, but for one case: it accepts an exclusive token that equals the
// largest shared one, which no lock issues.
func WithShared() SQLOption { return sharedOption{} }

// Alterations returns the statements that give a table that was made without
// WithShared its columns, for the tool that runs your migrations. A row keeps its
// number as the exclusive one, and guards without WithShared go on. To run a
// statement twice is the database's error. Each waits for the open transactions of
// the table, and new ones wait for it; none of the databases copies the rows.
func (g *SQL) Alterations() []string {
	statements := make([]string, len(sharedColumns))
	for i, column := range sharedColumns {
		statements[i] = g.named("ALTER TABLE {table} ADD COLUMN " + g.columnOf(column))
	}
	return statements
}

func (g *SQL) columnOf(name string) string {
	return name + " " + g.dialect.number + " NOT NULL DEFAULT 0"
}

// columns are those of shared tokens in the statement that creates the table.
func (g *SQL) columns() string {
	var b strings.Builder
	if g.shared {
		for _, column := range sharedColumns {
			b.WriteString(",\n\t" + g.columnOf(column))
		}
	}
	return b.String()
}

// numbers are the columns that a guard reads of a row.
func (g *SQL) numbers() string {
	if g.shared {
		return "token, " + strings.Join(sharedColumns, ", ")
	}
	return "token"
}

// row is the {numbers} of a row.
type row struct{ token, shared, beforeShared int64 }

// fields are where {numbers} of a row are read into.
func (g *SQL) fields(r *row) []any {
	if !g.shared {
		return []any{&r.token}
	}
	return []any{&r.token, &r.shared, &r.beforeShared}
}

// seen is the row as a Seen.
func (r row) seen() Seen {
	if r.token > r.shared {
		return Seen{Exclusive: redlock.Token(r.token)} //nolint:gosec // the column is checked to be positive
	}
	return Seen{Exclusive: redlock.Token(r.beforeShared), Shared: redlock.Token(r.shared)} //nolint:gosec // no token is above 2^53-1
}

// addColumns adds the columns of shared tokens that the table lacks.
func (g *SQL) addColumns(ctx context.Context, db *sql.DB) error {
	for i, statement := range g.Alterations() {
		there := g.hasColumn(ctx, db, sharedColumns[i])
		if there == nil {
			continue
		}
		_, err := db.ExecContext(ctx, statement)
		if err == nil || g.hasColumn(ctx, db, sharedColumns[i]) == nil { // another process was first
			continue
		}
		return fmt.Errorf("add the columns of shared tokens, as by SQL.Alterations: %w", err)
	}
	return nil
}

// hasColumn returns an error if the table lacks the column, or cannot be asked.
func (g *SQL) hasColumn(ctx context.Context, db *sql.DB, column string) error {
	var number int64
	err := db.QueryRowContext(ctx, g.named("SELECT "+column+" FROM {table} WHERE resource = ''")).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}
