// Package state is the durable memory of the program: one SQLite file that holds
// the ledger, the journal of answers, the runs with their steps and cursors, the
// scans, the watermarks, the latches, the ids that were seen, and the queue of what is
// still to be asked.
//
// # One commit point
//
// An answer, its outcome, the cursor behind it and the work it gives rise to are
// one transaction. A paid call takes three of them: its price is reserved, it is
// marked as sent, and its answer is settled; each is on disk before the next thing
// happens. Free answers that come faster than 20 a second share a commit. Nothing
// outside this package may call an id or a cursor durable before [Store.Flush] has
// returned. An answer in hand is kept in a file while another program locks the
// database.
//
// # The database keeps the caps
//
// What a period holds and may hold are columns of one row, and triggers refuse to
// let the first pass the second. They also refuse to delete a paid attempt, to change its
// price or period, and to refund it without proof. A mistake in this package can
// therefore not spend more than the budget.
//
// Which day and which billing cycle a call counts for follows from the time at which it
// was reserved and from the calendar in force. Another calendar gives periods other
// bounds, within which the database counts what is held: nothing is carried from one
// period to another, so nothing is lost on the way, or counted twice.
//
// What one call makes necessary is held together with its price: a scan is worth
// nothing to those who cannot pay for reading it. A hold counts like a price, and what
// is drawn from it has been counted already; only the sum of both is ever compared
// with a cap.
//
// # A scan is started once
//
// Nothing tells the service that a second request for a scan means the first one. So
// the wish comes first, as a row of its own, and the attempts that carry it out refer
// to it: unique indexes allow one wish at a time for what a scan looks for, whichever run wants
// it, and one attempt for the wish that is not refunded. Triggers let the state of the
// scan follow its attempt. From the moment an attempt is marked as sent the scan may
// exist; it is unknown until an answer is read, a refund proves that there is none, or an
// operator says what there is. A run that wants a live scan joins it, with a hold of
// its own for reading it.
//
// # Groups survive a full disk
//
// SQLite throws a whole transaction away when its disk is full. The store keeps
// the statements of the open group in memory until they are durable, and performs
// them again, in the same order and so with the same ids, once there is room. The
// same record serves to undo: a unit of work that fails is rolled back together
// with its group, and the group without it is performed again.
package state
