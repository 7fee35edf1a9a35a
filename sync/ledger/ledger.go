package ledger

import (
	"fmt"
	"time"

	"outlierd/sync/journal"
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
	journal  *journal.Journal
	location *time.Location
	renews   int
	clock    *Clock

	// Observe is called for each call whose outcome was recorded, with its error; nil calls nothing.
	Observe func(c Call, failed error)
}

// New returns the books in a database whose schema is up to date. Days and billing cycles begin
// at midnight in location, and a cycle begins on day renews of the month.
func New(db *store.Store, j *journal.Journal, location *time.Location, renews int) Books {
	clock := &Clock{}
	clock.set(time.Now(), false)
	return booksOf(&Ledger{db: db, journal: j, location: location, renews: renews, clock: clock})
}

// Over returns the books in a snapshot of the database, with the same clock.
func (b Books) Over(db *store.Store, j *journal.Journal) Books {
	return booksOf(&Ledger{db: db, journal: j, location: b.Ledger.location, renews: b.Ledger.renews, clock: b.Clock})
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
