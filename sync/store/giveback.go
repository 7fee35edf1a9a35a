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
func (s *Store) Inside() (Inside, error) { return readInside(s) }

func readInside(in Reader) (i Inside, err error) {
	_, err = Scan(in, []any{&i.Bytes, &i.Free}, `SELECT page_count * page_size, freelist_count * page_size
		FROM pragma_page_count(), pragma_page_size(), pragma_freelist_count()`)
	return i, err
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
		if err := tx.Exec(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, givenBack)); err != nil {
			return fmt.Errorf("return free space to the disk: %w", err)
		}
		have, err = readInside(tx)
		return err
	})
	return have.toGiveBack(), err
}
