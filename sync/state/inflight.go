package state

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
)

// inFlight is the free call that was sent last, in a file beside the database. It is written
// before the call is sent and not synced, which survives a kill of the process: the next one
// finds whether its answer was kept, and else puts on record that it was sent.
type inFlight struct {
	After    int64 // the newest attempt on record when it was written
	Run, Job string
	Step     int64
	Op       outlier.Operation
	Entity   string
	Params   string
	Attempt  int
	At       int64 // microseconds since 1970
}

func (s *Store) inFlightPath() string { return filepath.Join(s.dir, "sending.json") }

// noteInFlight writes down a free call that is about to be sent.
func (a *attempt) noteInFlight() error {
	f := inFlight{
		Run: a.p.Run, Job: a.p.Job, Step: a.p.Step, Op: a.r.Op, Entity: a.r.Entity, Params: a.params,
		Attempt: a.p.Attempt, At: micros(time.Now()),
	}
	err := a.s.view(func() error { return a.s.row(`SELECT coalesce(max(id), 0) FROM attempts`).Scan(&f.After) })
	if err != nil {
		return err
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.sending == nil {
		if a.s.sending, err = os.OpenFile(a.s.inFlightPath(), os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600); err != nil {
			return err
		}
	}
	_, err = a.s.sending.WriteAt(append(text, '\n'), 0) // what stands behind the line is of longer ones before it
	return err
}

// recoverInFlight puts the call that was in flight when the last process ended on record,
// unless it is there.
func (t *Tx) recoverInFlight() error {
	file, err := os.Open(t.s.inFlightPath())
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
	if read != nil { // a power failure left it so
		return nil
	}
	_, err = t.exec(`INSERT INTO attempts (run, job, step, op, entity, params, attempt, price, state, day, cycle, caps,
			reserved_at, sent_at, settled_at, waited, http_status, bytes, error)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 'unknown', '', '', '', 0, ?8, ?9, 0, 0, 0, 'the process ended before an answer was kept'
		WHERE NOT EXISTS (SELECT 1 FROM attempts WHERE id > ?10 AND run = ?1 AND op = ?4 AND entity = ?5 AND attempt = ?7)`,
		f.Run, f.Job, f.Step, string(f.Op), f.Entity, f.Params, f.Attempt, f.At, micros(t.now), f.After)
	if err != nil {
		return fmt.Errorf("record the call that was in flight when the last process ended: %w", err)
	}
	return nil
}
