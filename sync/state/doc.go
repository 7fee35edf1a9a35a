// Package state is the durable memory of the program: one SQLite file that holds
// the ledger, the journal of answers, the runs with their steps and cursors, the
// ids that were seen, and the queue of what is still to be asked.
//
// # One commit point
//
// An answer, its outcome, the cursor behind it and the work it gives rise to are
// one transaction. A paid call takes three of them: its price is reserved, it is
// marked as sent, and its answer is settled; each is on disk before the next thing
// happens. Free answers need no such care, a lost one is asked for again; up to 64
// of them, or one second's, share a commit. Nothing outside this package may call
// an id or a cursor durable before [Store.Flush] has returned.
//
// # The database keeps the caps
//
// What a period holds and may hold are columns of one row, and triggers refuse to
// let the first pass the second. They also refuse to delete a paid attempt, to change its
// price or period, and to refund it without proof. A mistake in this package, or
// in a shell opened on the file, can therefore not spend more than the budget.
//
// # Groups survive a full disk
//
// SQLite throws a whole transaction away when its disk is full. The store keeps
// the statements of the open group in memory until they are durable, and performs
// them again, in the same order and so with the same ids, once there is room. The
// same record serves to undo: a unit of work that fails is rolled back together
// with its group, and the group without it is performed again.
package state
