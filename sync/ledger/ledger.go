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

import (
	"errors"
	"fmt"
	"time"

	"outlierd/sync/store"
)

// Books are the ledger of one state folder, and the records that belong to it.
type Books struct {
	Ledger *Ledger
	Calls  *Calls
	Blocks *Blocks
	Clock  *Clock
}

// Ledger keeps the accounts of one state folder. Its methods may be called by several goroutines.
type Ledger struct {
	db       *store.Store
	location *time.Location
	renews   int
	clock    *Clock

	// Observe is called for each call whose outcome was recorded, with its error; nil calls nothing.
	Observe func(c Call, failed error)
}

// New returns the books in a database whose schema is up to date. Days and billing cycles begin
// at midnight in location, and a cycle begins on day renews of the month.
func New(db *store.Store, location *time.Location, renews int) Books {
	clock := &Clock{}
	clock.set(time.Now(), false)
	return booksOf(&Ledger{db: db, location: location, renews: renews, clock: clock})
}

// Over returns the books in a snapshot of the database, with the same clock.
func (b Books) Over(db *store.Store) Books {
	return booksOf(&Ledger{db: db, location: b.Ledger.location, renews: b.Ledger.renews, clock: b.Clock})
}

func booksOf(l *Ledger) Books {
	return Books{Ledger: l, Calls: &Calls{l.db}, Blocks: &Blocks{l.db}, Clock: l.clock}
}

// CheckSent returns an error if the ledger does not have the paid call that was sent last. What it says of spending
// is not true then, so nothing is bought with it.
func (l *Ledger) CheckSent(tx *store.Tx) error {
	last := l.db.Sent().Attempt
	if last == 0 {
		return nil
	}
	has, err := store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM attempts WHERE id = ? AND state <> 'reserved')`, last)
	if err == nil && !has {
		err = fmt.Errorf("%s does not have the last paid call: it or its log was lost, or replaced by an older copy; "+
			"restore a backup of the state folder, or, if there is none, remove %s and record what was spent since "+
			"with 'outlierd budget adjust'", l.db.Path(), l.db.SentPath())
	}
	return err
}

// Recover settles the attempts that the last process left open. A reservation that was never
// marked as sent is provably unsent and refunded; any other attempt stays held as unknown.
func (l *Ledger) Recover(tx *store.Tx) error {
	// Usually none is open. To prepare this query takes SQLite a fraction of the time that an UPDATE takes, which it
	// prepares together with all triggers of the table.
	left, err := store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM attempts INDEXED BY attempts_open
		WHERE state IN ('reserved', 'sending'))`)
	if err == nil && left {
		err = tx.Exec(`UPDATE attempts SET state = iif(state = 'reserved', 'refunded', 'unknown'), settled_at = ?,
			error = iif(state = 'reserved', 'never sent: the process ended before', 'the process ended before an answer was kept')
			WHERE state IN ('reserved', 'sending')`, store.Micros(time.Now()))
	}
	return err
}

// Forget erases ids from the attempts and blocks that mention them. Prices and outcomes remain.
func Forget(tx *store.Tx, ids [][]byte) error {
	return errors.Join(
		store.Erase(tx, "attempts", ids, "entity", "params", "error"),
		store.Erase(tx, "blocks", ids, "reason"),
	)
}
