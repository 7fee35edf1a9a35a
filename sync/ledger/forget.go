package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"outlierd/sync/store"
)

// Forget erases ids from the attempts and blocks that mention them. Prices and outcomes remain.
func Forget(tx *store.Tx, ids [][]byte) error {
	return errors.Join(
		store.Erase(tx, "attempts", ids, "entity", "params", "error"),
		store.Erase(tx, "blocks", ids, "reason"),
	)
}

// ForgetInFlight removes the record of the free call that was sent last, which names its entity.
func (l *Ledger) ForgetInFlight() error {
	err := l.Close()
	if failed := os.Remove(l.inFlightPath()); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("erase the last call: %w", failed))
	}
	return err
}
