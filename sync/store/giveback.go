package store

import "fmt"

// Free pages in the file are reused by later writes. If they are more than a share of the file, and
// more than a minimum, some are returned to the disk.
const (
	keptFree   = 10      // a tenth of the file
	littleFree = 4 << 20 // bytes
)

// givenBack is how many pages one step returns. Each may require moving another page.
const givenBack = 256

// Inside describes the free space within the file.
type Inside struct {
	Bytes int64 // of the file
	Free  int64 // of these, unused
}

// toGiveBack reports whether enough is free for some of it to be returned to the disk.
func (i Inside) toGiveBack() bool {
	return i.Free > littleFree && i.Free > i.Bytes/keptFree
}

// Inside returns the free space within the file.
func (s *Store) Inside() (i Inside, err error) {
	err = s.View(func(tx *Tx) error {
		i, err = readInside(tx)
		return err
	})
	return i, err
}

func readInside(tx *Tx) (Inside, error) {
	var size, pages, free int64
	for query, to := range map[string]*int64{
		`PRAGMA page_size`: &size, `PRAGMA page_count`: &pages, `PRAGMA freelist_count`: &free,
	} {
		if _, err := Scan(tx, []any{to}, query); err != nil {
			return Inside{}, fmt.Errorf("read the free space in the state: %w", err)
		}
	}
	return Inside{Bytes: pages * size, Free: free * size}, nil
}

// GiveBack returns some of the free space within the file to the disk, if there is much of it, in
// one short transaction. It reports whether there is more to return. It does not wait for another
// program's lock.
func (s *Store) GiveBack() (more bool, err error) {
	have, err := s.Inside()
	if err != nil || !have.toGiveBack() {
		return false, err
	}
	err = s.UpdateWithin(0, func(tx *Tx) error {
		if _, err := tx.Exec(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, givenBack)); err != nil {
			return fmt.Errorf("return free space to the disk: %w", err)
		}
		have, err = readInside(tx)
		return err
	})
	return have.toGiveBack(), err
}
