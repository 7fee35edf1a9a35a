package state

import (
	"crypto/rand"
	"encoding/hex"

	"outlierd/sync/store"
)

// instanceKey is the name of the state's own name among its facts.
const instanceKey = "instance"

// Instance is the name of this state, by which a lake that several daemons fill tells its rows from
// others'; "" if it has none yet. It stays through backups.
func (s *Store) Instance() (name string, err error) {
	err = s.DB.View(func(tx *store.Tx) error {
		name, err = tx.Meta(instanceKey)
		return err
	})
	return name, err
}

// NamedInstance is [Store.Instance], which is made if there is none.
func (s *Store) NamedInstance() (name string, err error) {
	if name, err = s.Instance(); err != nil || name != "" {
		return name, err
	}
	id := make([]byte, 8)
	rand.Read(id) // never fails
	name = hex.EncodeToString(id)
	return name, s.DB.Update(func(tx *store.Tx) error { return tx.SetMeta(instanceKey, name) })
}
