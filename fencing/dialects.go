package fencing

import (
	"context"
	"errors"
	"strings"
)

// Dialect is what the databases say differently. It is data: the guard's logic
// is in SQL. The zero value is refused by NewSQL.
type Dialect struct {
	name  string
	quote string
	// create makes the table. {table} stands for the quoted name, {shared} for the
	// columns of shared tokens, which are made like number.
	create string
	number string
	// faults are queries that name what makes a table unable to guard, and those
	// of columnFault each of the columns of shared tokens.
	faults      []string
	columnFault string
	// record raises the row to the larger of its token and the one given, and
	// returns what the row then holds, {numbers}. If read is set, the database
	// cannot do both in one statement and read fetches it, as a reader that sees
	// and locks the newest version of the row.
	record string
	read   string
	// share is record for a shared token, which is given twice.
	share string
	// peek reads the token without a lock.
	peek string
	// open reports whether the transaction is there, where the database lets
	// statements run on without it. nil: the database refuses them by itself.
	open func(ctx context.Context, tx Tx) (bool, error)
	// begunIn is open where nobody but the caller says that a transaction was begun:
	// in a Tx that is no *sql.Tx. nil: the statement itself tells.
	begunIn func(ctx context.Context, tx Tx) (bool, error)
	// alone says that record and share do all there is to do: see SQL.Statement.
	alone bool
	// begun and same are the statements that tell whether a transaction is still
	// the one that it was, where the session may have begun another: a savepoint
	// and its release, which is an error without it. Empty: open is enough.
	begun string
	same  string
	// marks tells errors apart without the driver's types: by SQLSTATE where the
	// driver has the method, else by what the message always contains.
	marks marks
}

type marks struct {
	states   bool // SQLSTATE; else substrings of the message
	noTable  []string
	noColumn []string
	aborted  []string
	retry    []string
}

// String returns the name of the database.
func (d Dialect) String() string { return d.name }

// PostgreSQL returns the dialect of PostgreSQL 9.5 and newer. It was tested on
// version 15 through pgx; lib/pq reports errors by the same method.
//
// The unique index on resource finds the row or makes it, and ON CONFLICT locks
// it until the transaction ends. At read committed the comparison is made with
// the newest committed version, also when the snapshot is older; at repeatable
// read and serializable a version newer than the snapshot is a serialization
// failure instead (SQLSTATE 40001).
func PostgreSQL() Dialect {
	return Dialect{
		name:  "PostgreSQL",
		quote: `"`,
		create: `CREATE TABLE IF NOT EXISTS {table} (
	resource text COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 255),
	token bigint NOT NULL CHECK (token > 0){shared}
)`,
		number: "bigint",
		record: `INSERT INTO {table} AS seen (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = GREATEST(seen.token, EXCLUDED.token)
RETURNING {numbers}`,
		share: `INSERT INTO {table} AS seen (resource, token, shared) VALUES ($1, $2, $3)
ON CONFLICT (resource) DO UPDATE SET
	before_shared = CASE WHEN seen.token > seen.shared THEN seen.token ELSE seen.before_shared END,
	shared = CASE WHEN EXCLUDED.token > seen.token THEN EXCLUDED.token ELSE seen.shared END,
	token = GREATEST(seen.token, EXCLUDED.token)
RETURNING {numbers}`,
		peek:        `SELECT token FROM {table} WHERE resource = $1`,
		faults:      faultsPostgreSQL,
		columnFault: columnFaultPostgreSQL,
		begunIn:     openSavepoint,
		alone:       true,
		marks: marks{
			states:   true,
			noTable:  []string{"42P01", "3F000"},
			noColumn: []string{"42703"},
			aborted:  []string{"25P02", "25P01"}, // given up; never begun
			retry:    []string{"40001", "40P01"},
		},
	}
}

// SQLite returns the dialect of SQLite 3.37 and newer.
//
// SQLite has one writer at a time: the statement takes the database's write lock
// and keeps it until the transaction ends. A transaction that has read before
// cannot always take it (SQLITE_BUSY); one that begins IMMEDIATE can.
func SQLite() Dialect {
	return Dialect{
		name:  "SQLite",
		quote: `"`,
		create: `CREATE TABLE IF NOT EXISTS {table} (
	resource TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(resource AS BLOB)) BETWEEN 1 AND 255),
	token INTEGER NOT NULL CHECK (token > 0){shared}
) STRICT, WITHOUT ROWID`,
		number: "INTEGER",
		record: `INSERT INTO {table} AS seen (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = max(seen.token, excluded.token)
RETURNING {numbers}`,
		share: `INSERT INTO {table} AS seen (resource, token, shared) VALUES (?, ?, ?)
ON CONFLICT (resource) DO UPDATE SET
	before_shared = CASE WHEN seen.token > seen.shared THEN seen.token ELSE seen.before_shared END,
	shared = CASE WHEN excluded.token > seen.token THEN excluded.token ELSE seen.shared END,
	token = max(seen.token, excluded.token)
RETURNING {numbers}`,
		peek:        `SELECT token FROM {table} WHERE resource = ?`,
		faults:      faultsSQLite,
		columnFault: columnFaultSQLite,
		open:        openSQLite,
		begunIn:     openSQLite,
		marks: marks{
			noTable:  []string{"no such table"},
			noColumn: []string{"no such column", "has no column named"},
			retry:    []string{"database is locked", "database table is locked"},
		},
	}
}

// MariaDB returns the dialect of MariaDB 10.5 and newer; it was tested on 10.11.
//
// The primary key finds the row or makes it, and InnoDB locks it exclusively
// until the transaction ends. The statement reads the newest committed version
// at every isolation level, the snapshot notwithstanding. A deadlock takes the
// whole transaction away and lets the session go on without one, and so does the
// commit that DDL and TRUNCATE bring with them. The condition on @@in_transaction
// sees that, and a savepoint sees it where another transaction has begun.
func MariaDB() Dialect {
	d := mysqlFamily("MariaDB")
	d.alone = true
	d.record = `INSERT INTO {table} (resource, token)
SELECT ?, ? FROM DUAL WHERE @@in_transaction = 1
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))
RETURNING {numbers}`
	d.share = `INSERT INTO {table} (resource, token, shared)
SELECT ?, ?, ? FROM DUAL WHERE @@in_transaction = 1
` + shareMySQL + `
RETURNING {numbers}`
	return d
}

// MySQL returns a dialect for MySQL 8.0, which MariaDB understands as well. It
// does in four statements what MariaDB does in one. It was tested on MariaDB
// only: it keeps to what the manuals of both promise.
func MySQL() Dialect {
	d := mysqlFamily("MySQL")
	d.record = `INSERT INTO {table} (resource, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`
	d.share = `INSERT INTO {table} (resource, token, shared) VALUES (?, ?, ?)
` + shareMySQL
	d.read = `SELECT {numbers} FROM {table} WHERE resource = ? FOR UPDATE`
	d.open, d.begunIn = openSavepoint, openSavepoint
	return d
}

// shareMySQL relies on the order of the assignments: each sees those before it,
// and none of these needs the new value of one before it.
const shareMySQL = `ON DUPLICATE KEY UPDATE
	before_shared = IF(token > shared, token, before_shared),
	shared = IF(VALUES(token) > token, VALUES(token), shared),
	token = GREATEST(token, VALUES(token))`

// mysqlFamily has the column as bytes: a text column compares by a collation
// that takes "A" for "a" and "a " for "a", which would mix two resources up.
func mysqlFamily(name string) Dialect {
	return Dialect{
		name:  name,
		quote: "`",
		create: `CREATE TABLE IF NOT EXISTS {table} (
	resource varbinary(255) NOT NULL PRIMARY KEY,
	token bigint NOT NULL CHECK (token > 0){shared}
) ENGINE=InnoDB`,
		number:      "bigint",
		peek:        `SELECT token FROM {table} WHERE resource = ?`,
		faults:      faultsMySQL,
		columnFault: columnFaultMySQL,
		begun:       "SAVEPOINT redlock_fencing_write",
		same:        "RELEASE SAVEPOINT redlock_fencing_write",
		marks: marks{
			noTable:  []string{"Error 1146 "},
			noColumn: []string{"Error 1054 "},
			aborted:  []string{"Error 1305 "}, // the savepoint went with its transaction
			retry:    []string{"Error 1213 ", "Error 1205 ", "Error 1020 "},
		},
	}
}

// openSQLite asks for a second BEGIN, which only an open transaction refuses.
// Some errors (OR ROLLBACK, a full disk) end a transaction behind the driver's
// back, and what follows would commit by itself, statement by statement.
func openSQLite(ctx context.Context, tx Tx) (bool, error) {
	_, err := tx.ExecContext(ctx, "BEGIN")
	if err == nil {
		_, err = tx.ExecContext(ctx, "ROLLBACK")
		return false, err
	}
	if strings.Contains(err.Error(), "within a transaction") {
		return true, nil
	}
	return false, err
}

// openSavepoint sets a savepoint and releases it. Without a transaction MySQL's is
// gone as soon as it is set, and the release is error 1305; PostgreSQL refuses to
// set it, with 25P01. Its name is not that of begun, which it would replace.
func openSavepoint(ctx context.Context, tx Tx) (bool, error) {
	for _, statement := range []string{"SAVEPOINT redlock_fencing", "RELEASE SAVEPOINT redlock_fencing"} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return false, err
		}
	}
	return true, nil
}

// is reports whether err bears one of the dialect's marks.
func (m marks) is(err error, what []string) bool {
	text := err.Error()
	if m.states {
		var s interface{ SQLState() string }
		if !errors.As(err, &s) {
			return false
		}
		text = s.SQLState()
	}
	for _, mark := range what {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}
