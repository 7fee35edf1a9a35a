package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// inFlight is the free call that was sent last, in a file beside the database. It is written
// before the call is sent and not synced, which is enough to survive a kill of the process. The
// next process checks whether the answer was kept, and if not, records that the call was sent.
type inFlight struct {
	After    int64 // attempts at this call that were recorded earlier have no higher id
	Run, Job string
	Step     int64
	Op       outlier.Operation
	Entity   string
	Params   string
	Attempt  int
	At       int64 // microseconds since 1970
}

func (l *Ledger) inFlightPath() string { return filepath.Join(l.db.Dir(), "sending.json") }

// noteInFlight records a free call that is about to be sent.
func (a *attempt) noteInFlight() error {
	f := inFlight{
		Run: a.p.Run, Job: a.p.Job, Step: a.p.Step, Op: a.r.Op, Entity: a.r.Entity, Params: a.params,
		Attempt: a.p.Attempt, At: store.Micros(time.Now()),
	}
	a.l.sendingMu.Lock()
	defer a.l.sendingMu.Unlock()
	if f.After = a.l.newest; f.After == 0 {
		err := a.l.db.View(func(tx *store.Tx) error {
			return tx.Row(`SELECT coalesce(max(id), 0) FROM attempts`).Scan(&f.After)
		})
		if err != nil {
			return err
		}
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if a.l.sending == nil {
		if a.l.sending, err = os.OpenFile(a.l.inFlightPath(), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600); err != nil {
			return err
		}
	}
	_, err = a.l.sending.WriteAt(append(text, '\n'), 0) // bytes after the newline are left from longer lines
	return err
}

// settledLast updates the id of the newest recorded attempt.
func (l *Ledger) settledLast(id int64) {
	l.sendingMu.Lock()
	defer l.sendingMu.Unlock()
	l.newest = max(l.newest, id)
}

// recoverInFlight records the call that was in flight when the last process ended, unless it is
// recorded already.
func (l *Ledger) recoverInFlight(tx *store.Tx) error {
	file, err := os.Open(l.inFlightPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f inFlight
	read := json.NewDecoder(file).Decode(&f)
	if err := file.Close(); err != nil {
		return err
	}
	if read != nil { // left by a power failure
		return nil
	}
	var kept bool
	err = tx.Row(`SELECT EXISTS (SELECT 1 FROM attempts WHERE id > ? AND run = ? AND op = ? AND entity = ?
		AND attempt = ?)`, f.After, f.Run, string(f.Op), f.Entity, f.Attempt).Scan(&kept)
	if err == nil && !kept {
		_, err = tx.Exec(`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day,
			cycle, caps, reserved_at, sent_at, settled_at, waited, http_status, bytes, error)
			VALUES (?, ?, ?, ?, ?, ?, ?, 0, 'unknown', '', '', '', 0, ?, ?, 0, 0, 0,
			'the process ended before an answer was kept')`,
			f.Run, f.Job, f.Step, string(f.Op), f.Entity, f.Params, f.Attempt, f.At, store.Micros(tx.Now()))
	}
	if err != nil {
		return fmt.Errorf("record the call that was in flight when the last process ended: %w", err)
	}
	return nil
}
