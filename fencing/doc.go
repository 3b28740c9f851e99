// Package fencing is the resource's side of a lock: guards that refuse the write
// of a holder whose time has passed.
//
// A lock cannot stop its holder. A process that is paused after it was granted
// the lock wakes after the lease and writes, and nothing on the lock's side can
// prevent that. The resource can: it remembers the largest token that it has
// seen and refuses a smaller one. All guards here keep the one rule of
// [Seen.Accept], and keep the token in the same atomic unit as the write:
//
//   - [Memory]: one process; the reference.
//   - [SQL]: in the caller's transaction, on PostgreSQL, SQLite, MySQL, MariaDB:
//     one of database/sql or of what is made over it ([Tx]), or pgx ([Statement]).
//   - [Redis]: in one script with the write.
//   - [RequireToken], [GuardRequests], [Transport]: across net/http.
//   - [NewContext], [FromContext]: the token's way through a program's calls.
//
// # What a guard does not promise
//
// It does not exclude two holders: it puts their writes in the order of their
// tokens. A stale holder's write is accepted for as long as no newer holder has
// shown its token to the resource; so show the token before you read what you
// will write from. A guard covers what asks it and nothing else: one writer that
// does not ask undoes it. And a guard that forgets (a dropped table, an evicted
// key, a restarted process with [Memory]) begins again with the first token it
// is shown.
//
// A token is no credential. Anyone who may reach the resource may send any number.
package fencing
