package guardtest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorumkit/redlock"
	"github.com/quorumkit/redlock/fencing"
)

// openExample opens a fresh SQLite database with one invoice in it.
func openExample() (*sql.DB, func(), error) {
	dir, err := os.MkdirTemp("", "guardtest-example-")
	if err != nil {
		return nil, nil, err
	}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(dir, "db")+"?_txlock=immediate&_busy_timeout=5000")
	if err == nil {
		_, err = db.Exec("CREATE TABLE invoices (id INTEGER PRIMARY KEY, state TEXT); INSERT INTO invoices VALUES (7, 'open')")
	}
	return db, func() { db.Close(); os.RemoveAll(dir) }, err
}

func Example_sqlWrite() {
	db, done, err := openExample()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	guard, err := fencing.NewSQL(fencing.SQLite())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(guard.Migrate(ctx, db))

	set := func(state string) func(*sql.Tx) error {
		return func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE invoices SET state = ? WHERE id = 7", state)
			return err
		}
	}
	fmt.Println(guard.Write(ctx, db, nil, "invoice:7", 42, set("paid")))
	fmt.Println(guard.Write(ctx, db, nil, "invoice:7", 41, set("cancelled"))) // woke too late
	var state string
	err = db.QueryRow("SELECT state FROM invoices WHERE id = 7").Scan(&state)
	fmt.Println(state, err)
	fmt.Println(guard.Highest(ctx, db, "invoice:7"))
	// Output:
	// <nil>
	// <nil>
	// fencing: write "invoice:7": stale token: got 41, the highest seen is 42
	// paid <nil>
	// 42 <nil>
}

// In a transaction of your own, Check comes first.
func Example_sqlCheck() {
	db, done, err := openExample()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	guard, err := fencing.NewSQL(fencing.SQLite())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	pay := func() error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := guard.Check(ctx, tx, "invoice:7", 42); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE invoices SET state = 'paid' WHERE id = 7"); err != nil {
			return err
		}
		return tx.Commit()
	}
	err = pay()
	fmt.Println("no table:", errors.Is(err, fencing.ErrNoTable), guard.Retryable(err))
	fmt.Println(guard.Migrate(ctx, db))
	fmt.Println(pay())
	// Output:
	// no table: true false
	// <nil>
	// <nil>
}

// A table made without WithShared gets its columns, by Migrate or by
// the tool that runs your migrations.
func Example_sqlShared() {
	db, done, err := openExample()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	older, err := fencing.NewSQL(fencing.SQLite())
	if err != nil {
		fmt.Println(err)
		return
	}
	guard, err := fencing.NewSQL(fencing.SQLite(), fencing.WithShared())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(older.Migrate(ctx, db))
	for _, statement := range guard.Alterations() {
		fmt.Println(statement)
	}
	fmt.Println(guard.Migrate(ctx, db))

	sharer := func(token redlock.Token) error { // a lock's own context says this by itself
		ctx, err := fencing.NewSharedContext(ctx, "invoice:7", token)
		if err != nil {
			return err
		}
		return guard.Write(ctx, db, nil, "invoice:7", token, func(*sql.Tx) error { return nil })
	}
	fmt.Println(sharer(43))
	fmt.Println(sharer(42)) // shares it with 43
	fmt.Println(older.Write(ctx, db, nil, "invoice:7", 41, func(*sql.Tx) error { return nil }))
	// Output:
	// <nil>
	// ALTER TABLE "fencing_tokens" ADD COLUMN shared INTEGER NOT NULL DEFAULT 0
	// ALTER TABLE "fencing_tokens" ADD COLUMN before_shared INTEGER NOT NULL DEFAULT 0
	// <nil>
	// <nil>
	// <nil>
	// fencing: write "invoice:7": stale token: got 41, the highest seen is 43
}
