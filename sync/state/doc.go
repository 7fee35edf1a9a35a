// Package state opens the state folder, the durable storage of the program: it combines the
// journal, the ledger, the queue and the runs in the SQLite file of package store. It contains the
// migrations of all their tables, and operations on several of them: checking, renaming a job, and
// changes by operators to a folder that a process has locked.
//
// # One commit point
//
// An answer, its outcome, the cursor behind it and the calls it leads to are one transaction, durable
// when [store.Store.Update] returns: the packages use the same [store.Tx].
package state
