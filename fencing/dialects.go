package fencing

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// Dialect is what the databases say differently. It is data: the guard's logic
// is in SQL. The zero value is refused by NewSQL.
type Dialect struct {
	name  string
	quote string
	// create makes the table. {table} stands for the quoted name.
	create string
	// faults are queries that name what makes a table unable to guard.
	faults []string
	// record raises the row to the larger of its token and the one given, and
	// returns what the row then holds. If read is set, the database cannot do
	// both in one statement and read fetches it, as a reader that sees and locks
	// the newest version of the row.
	record string
	read   string
	// peek reads the token without a lock.
	peek string
	// open reports whether the transaction is there, where the database lets
	// statements run on without it. nil: the database refuses them by itself.
	open func(ctx context.Context, tx *sql.Tx) (bool, error)
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
	states  bool // SQLSTATE; else substrings of the message
	noTable []string
	aborted []string
	retry   []string
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
	token bigint NOT NULL CHECK (token > 0)
)`,
		record: `INSERT INTO {table} AS seen (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = GREATEST(seen.token, EXCLUDED.token)
RETURNING token`,
		peek:   `SELECT token FROM {table} WHERE resource = $1`,
		faults: faultsPostgreSQL,
		marks: marks{
			states:  true,
			noTable: []string{"42P01", "3F000"},
			aborted: []string{"25P02"},
			retry:   []string{"40001", "40P01"},
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
	token INTEGER NOT NULL CHECK (token > 0)
) STRICT, WITHOUT ROWID`,
		record: `INSERT INTO {table} AS seen (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = max(seen.token, excluded.token)
RETURNING token`,
		peek:   `SELECT token FROM {table} WHERE resource = ?`,
		faults: faultsSQLite,
		open:   openSQLite,
		marks: marks{
			noTable: []string{"no such table"},
			retry:   []string{"database is locked", "database table is locked"},
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
	d.record = `INSERT INTO {table} (resource, token)
SELECT ?, ? FROM DUAL WHERE @@in_transaction = 1
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))
RETURNING token`
	return d
}

// MySQL returns a dialect for MySQL 8.0, which MariaDB understands as well. It
// does in four statements what MariaDB does in one. It was tested on MariaDB
// only: it keeps to what the manuals of both promise.
func MySQL() Dialect {
	d := mysqlFamily("MySQL")
	d.record = `INSERT INTO {table} (resource, token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`
	d.read = `SELECT token FROM {table} WHERE resource = ? FOR UPDATE`
	d.open = openMySQL
	return d
}

// mysqlFamily has the column as bytes: a text column compares by a collation
// that takes "A" for "a" and "a " for "a", which would mix two resources up.
func mysqlFamily(name string) Dialect {
	return Dialect{
		name:  name,
		quote: "`",
		create: `CREATE TABLE IF NOT EXISTS {table} (
	resource varbinary(255) NOT NULL PRIMARY KEY,
	token bigint NOT NULL CHECK (token > 0)
) ENGINE=InnoDB`,
		peek:   `SELECT token FROM {table} WHERE resource = ?`,
		faults: faultsMySQL,
		begun:  "SAVEPOINT redlock_fencing_write",
		same:   "RELEASE SAVEPOINT redlock_fencing_write",
		marks: marks{
			noTable: []string{"Error 1146 "},
			aborted: []string{"Error 1305 "}, // the savepoint went with its transaction
			retry:   []string{"Error 1213 ", "Error 1205 ", "Error 1020 "},
		},
	}
}

// openSQLite asks for a second BEGIN, which only an open transaction refuses.
// Some errors (OR ROLLBACK, a full disk) end a transaction behind the driver's
// back, and what follows would commit by itself, statement by statement.
func openSQLite(ctx context.Context, tx *sql.Tx) (bool, error) {
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

// openMySQL sets a savepoint and releases it: without a transaction the
// savepoint is gone as soon as it is set, and the release is error 1305. Its name
// is not that of begun, which it would replace.
func openMySQL(ctx context.Context, tx *sql.Tx) (bool, error) {
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
