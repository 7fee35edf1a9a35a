// Package ledger keeps the books: what every paid call costs and what became of it, the
// caps and their periods, what is held for the calls that must follow, the blocks of paid
// calls, and the service's clock by which days and billing cycles turn. It owns the tables
// attempts, periods, holds, latches, recovered and jobs.
//
// A paid call takes three units of work: its price is reserved, it is marked as sent, and
// its answer is settled; each is on disk before the next thing happens. An answer in hand
// is kept in a file while another program locks the database.
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
// What one call makes necessary is held together with its price: a scan is
// worth nothing without the means to read it. A hold counts like a price, and what is
// taken from it has been counted already; only the sum of both is ever compared with a cap.
package ledger
