// Package ledger records what every paid call costs and its outcome, the caps and their periods,
// the credits set aside for the calls that must follow, the blocks of paid calls, and the
// service's time, which decides when days and billing cycles begin. It owns the tables attempts,
// caps, blocks and jobs.
//
// Every call takes three transactions: its price is reserved, it is marked as sent, and its answer is
// settled. Each is on disk before the next step. While the database cannot be written to, a received
// answer is kept in a file.
//
// # The database enforces the caps
//
// The caps in force are rows, and a trigger adds up what counts against each of them when an attempt is
// reserved, and refuses it if that exceeds a maximum. Triggers also refuse to delete a paid attempt, to
// change its price or period, and to refund it without proof. So a bug in this package cannot spend more
// than the budget.
//
// The day and the billing cycle that a call counts for follow from the time at which it was
// reserved and from the calendar in force. With another calendar, periods have other bounds. No total is
// stored, so nothing is lost or counted twice.
//
// The credits for calls that must follow are reserved together with the price of the first: a scan
// is worthless without the credits to read its results. Such a hold counts like a price, and calls
// paid from it have been counted already; only the sum of both is compared with a cap.
package ledger
