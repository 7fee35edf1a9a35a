package runs

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"outlierd/sync/store"
)

// Key identifies an order of a run. An order that is repeated with its key belongs to the run of the first one,
// whatever has happened since. The zero Key is that of an order without one.
type Key struct {
	Hash    [sha256.Size]byte // of the client's name for the order, which may be a token that was pasted by mistake
	Request string
}

// NewKey returns the key of an order by the client's name for it, and by what is asked for, which must be the same in a
// repeated order.
func NewKey(name, request string) Key { return Key{sha256.Sum256([]byte(name)), request} }

// KeyError refuses a key that was used for another order.
type KeyError struct{ Request, Run string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("the key was used for another request (%s), whose run is %s; use a new key", e.Request, e.Run)
}

// NextUrgent returns the place behind all runs that somebody waits for.
func (rs *Runs) NextUrgent() (int64, error) {
	return store.Value[int64](rs.db, `SELECT coalesce(max(urgent), 0) + 1 FROM runs WHERE `+mayGoOn)
}

// SetWanted records whether somebody waits for a run in progress, within which cap, and that the run is the one of
// r.Key.
func (rs *Runs) SetWanted(r Run) error {
	return rs.db.Update(func(tx *store.Tx) error {
		return errors.Join(store.Set(tx, "runs", "run", r.ID, r.wanted()), addKey(tx, r))
	})
}

func addKey(tx *store.Tx, r Run) error {
	if r.Key == (Key{}) {
		return nil
	}
	return tx.Exec(`INSERT INTO run_keys (key, run, request) VALUES (?, ?, ?)`, r.Key.Hash[:], r.ID, r.Key.Request)
}

// Keyed returns the run of a key, or nil if the key is new. If it was used for another request, it returns a
// [*KeyError].
func (rs *Runs) Keyed(k Key) (*Run, error) {
	var run, request string
	found, err := store.Scan(rs.db, []any{&run, &request}, `SELECT run, request FROM run_keys WHERE key = ?`, k.Hash[:])
	switch {
	case err != nil || !found:
		return nil, err
	case request != k.Request:
		return nil, &KeyError{request, run}
	}
	return rs.Get(run)
}
