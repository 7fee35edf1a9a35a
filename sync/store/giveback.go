package store

import "fmt"

// Room inside of the file that what was deleted has left is used again by what is written next. What is more
// than a share of the file, and more than a little, goes back to the disk.
const (
	keptFree   = 10      // a tenth of the file
	littleFree = 4 << 20 // bytes
)

// givenBack is how many pages one step gives back, each of which another page may have to be moved for.
const givenBack = 256

// Inside is the room in the file.
type Inside struct {
	Bytes   int64 // of the file
	Free    int64 // of these, which nothing uses
	Shrinks bool  // [Store.GiveBack] works; not so on a file that an earlier version made, until [Store.Compact]
}

// toGiveBack reports whether so much is free that some of it goes back to the disk.
func (i Inside) toGiveBack() bool {
	return i.Shrinks && i.Free > littleFree && i.Free > i.Bytes/keptFree
}

// incremental is SQLite's number for a file that can be cut in steps.
const incremental = 2

// Inside tells of the room in the file.
func (s *Store) Inside() (i Inside, err error) {
	err = s.View(func(tx *Tx) error {
		i, err = inside(tx)
		return err
	})
	return i, err
}

func inside(tx *Tx) (Inside, error) {
	var size, pages, free, mode int64
	for query, to := range map[string]*int64{
		`PRAGMA page_size`: &size, `PRAGMA page_count`: &pages, `PRAGMA freelist_count`: &free, `PRAGMA auto_vacuum`: &mode,
	} {
		if err := tx.Row(query).Scan(to); err != nil {
			return Inside{}, fmt.Errorf("read the free space in the state: %w", err)
		}
	}
	return Inside{Bytes: pages * size, Free: free * size, Shrinks: mode == incremental}, nil
}

// GiveBack gives some of the room inside of the file back to the disk, if there is much of it, in one short
// transaction. It reports whether there is more to give. It does not wait for another program's lock.
func (s *Store) GiveBack() (more bool, err error) {
	have, err := s.Inside()
	if err != nil || !have.toGiveBack() {
		return false, err
	}
	err = s.UpdateWithin(0, false, func(tx *Tx) error {
		if _, err := tx.Exec(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, givenBack)); err != nil {
			return fmt.Errorf("return free space to the disk: %w", err)
		}
		have, err = inside(tx)
		return err
	})
	return have.toGiveBack(), err
}
