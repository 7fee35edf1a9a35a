package state

import (
	"crypto/rand"
	"encoding/hex"

	"outlierd/sync/store"
)

// instanceKey is the key in meta of the name of this state.
const instanceKey = "instance"

// Instance returns the name of this state, which distinguishes its rows in a lake that several
// daemons fill; "" if it has none yet. Backups keep the name.
func (s *Store) Instance() (name string, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		name, err = tx.Meta(instanceKey)
		return err
	})
	return name, err
}

// NamedInstance is [Store.Instance], but creates the name if there is none.
func (s *Store) NamedInstance() (name string, err error) {
	if name, err = s.Instance(); err != nil || name != "" {
		return name, err
	}
	id := make([]byte, 8)
	rand.Read(id) // never fails
	name = hex.EncodeToString(id)
	return name, s.DB.Update(func(tx *store.Tx) error { return tx.SetMeta(instanceKey, name) })
}
