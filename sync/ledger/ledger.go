package ledger

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"outlierd/sync/journal"
	"outlierd/sync/store"
)

// Ledger is the books of one state folder. Its methods may be called by several
// goroutines.
type Ledger struct {
	db       *store.Store
	journal  *journal.Journal
	location *time.Location
	renews   int
	clock    clock

	sendingMu sync.Mutex
	sending   *os.File // what is in flight; see [inFlight]
	newest    int64    // the newest attempt settled by this process; 0 before its first

	allTakenUp atomic.Bool // no answer of an earlier process is left to follow from; see [Ledger.TakeUp]
}

// New is the ledger in a file whose schema is up to date. Days and billing cycles turn in
// the given time zone, and a cycle begins on that day of the month.
func New(db *store.Store, j *journal.Journal, location *time.Location, renews int) *Ledger {
	l := &Ledger{db: db, journal: j, location: location, renews: renews}
	l.clock.set(time.Now(), false)
	return l
}

// Recover settles what the last process left open: a reservation that was never marked as
// sent is provably unsent and refunded; any other attempt stays held as unknown.
func (l *Ledger) Recover(tx *store.Tx) error {
	now := store.Micros(time.Now())
	// The first condition is that of the index.
	if _, err := tx.Exec(`UPDATE attempts SET state = 'refunded', settled_at = ?,
		error = 'never sent: the process ended before' WHERE state IN ('reserved', 'sending')
		AND state = 'reserved'`, now); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE attempts SET state = 'unknown', settled_at = ?,
		error = 'the process ended before an answer was kept' WHERE state IN ('reserved', 'sending')
		AND state = 'sending'`, now); err != nil {
		return err
	}
	return l.recoverInFlight(tx)
}

// Close lets go of the file in which calls are noted that are in flight.
func (l *Ledger) Close() error {
	l.sendingMu.Lock()
	defer l.sendingMu.Unlock()
	if l.sending == nil {
		return nil
	}
	err := l.sending.Close()
	l.sending = nil
	return err
}
