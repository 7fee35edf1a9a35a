// Package state opens the state folder, the durable memory of the program: over the one
// SQLite file of package store it puts the journal, the ledger, the queue and the runs.
// It has the migrations of all their tables, and what spans them: checking, renaming a
// job, and what operators do to a folder that a process holds.
//
// # One commit point
//
// An answer, its outcome, the cursor behind it and the work it gives rise to are
// one transaction: the packages take the same [store.Tx]. Nothing outside them may call
// an id or a cursor durable before [store.Store.Flush] has returned.
package state
