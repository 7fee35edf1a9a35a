package ledger

import "outlierd/sync/store"

// Forget takes ids out of what attempts were about. Prices and outcomes stay.
func Forget(tx *store.Tx, ids [][]byte) error {
	return store.Erase(tx, "attempts", ids, "entity", "params", "error")
}
