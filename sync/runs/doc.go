// Package runs keeps what jobs have done: their runs with their steps and hits, the scans
// that they started, up to when their searches have covered what they look for, and which
// runs are still owed. It owns the tables runs, steps, seen, run_hits, scans, watermarks,
// owed and renames.
//
// # A scan is started once
//
// The service cannot know that a second request for a scan means the first one. So
// the wish comes first, as a row of its own, and the attempts that carry it out refer
// to it: unique indexes allow one wish at a time for what a scan looks for, whichever run wants
// it, and one attempt for the wish that is not refunded. Triggers let the state of the
// scan follow its attempt. From the moment an attempt is marked as sent the scan may
// exist; it is unknown until an answer is read, a refund proves that there is none, or an
// operator says what there is. A run that wants a live scan joins it, with a hold of
// its own for reading it.
package runs

import (
	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// Runs is the record of what jobs have done in one state folder.
type Runs struct {
	db     *store.Store
	ledger *ledger.Ledger
}

// New is the record in a file whose schema is up to date.
func New(db *store.Store, l *ledger.Ledger) *Runs { return &Runs{db: db, ledger: l} }
