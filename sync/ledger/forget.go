package ledger

import "outlierd/sync/store"

// Forget erases ids from the attempts that mention them. Prices and outcomes remain.
func Forget(tx *store.Tx, ids [][]byte) error {
	return store.Erase(tx, "attempts", ids, "entity", "params", "error")
}
