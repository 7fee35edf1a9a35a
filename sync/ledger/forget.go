package ledger

import (
	"errors"

	"outlierd/sync/store"
)

// Forget erases ids from the attempts and blocks that mention them. Prices and outcomes remain.
func Forget(tx *store.Tx, ids [][]byte) error {
	return errors.Join(
		store.Erase(tx, "attempts", ids, "entity", "params", "error"),
		store.Erase(tx, "blocks", ids, "reason"),
	)
}
