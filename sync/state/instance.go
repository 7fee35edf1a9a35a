package state

import (
	"crypto/rand"
	"encoding/hex"

	"outlierd/sync/store"
)

// instance has the name of this state.
var instance = store.Cell[string]{Key: "instance"}

// Instance returns the name of this state, which distinguishes its rows in a lake that several
// daemons fill; "" if it has none yet. Backups keep the name.
func (s *Store) Instance() (string, error) {
	return instance.Get(s.DB)
}

// NamedInstance is [Store.Instance], but creates the name if there is none.
func (s *Store) NamedInstance() (name string, err error) {
	if name, err = s.Instance(); err != nil || name != "" {
		return name, err
	}
	id := make([]byte, 8)
	rand.Read(id) // never fails
	name = hex.EncodeToString(id)
	return name, instance.Set(s.DB, name)
}
