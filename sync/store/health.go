package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"outlierd/internal/durable"
)

// Doubt returns why the whole file must be checked before it is used; "" if that is not necessary. SQLite has reported
// damage, an earlier check did not finish, the machine went down while the file was open, or the file has become
// smaller. A kill can only interrupt the newest transaction, which SQLite rolls back; a machine that went down may have
// lost any page that was not yet on its disk.
func (f *Folder) Doubt() (why string) {
	present := f.options.BootID()
	switch {
	case f.bootBefore == mustCheck:
		return "damage was reported, or an earlier check did not finish"
	case f.unclean && (f.bootBefore != present || present == ""):
		return "the machine went down while the state was open"
	case f.unclean && f.file.Size() < f.sent.Bytes:
		return "the file is smaller than when the last paid call was sent"
	}
	return ""
}

// Unclean reports whether the last process ended without closing the file.
func (f *Folder) Unclean() bool { return f.unclean }

// Doubted makes the next process check the whole file, until [Store.Sound] is called.
func (f *Folder) Doubted() error { return signFile(f.lock, mustCheck) }

// Sound records that the file was found sound during the machine's present boot.
func (f *Folder) Sound() error { return signFile(f.lock, f.options.BootID()) }

// Corrupt returns an error that says that the file cannot be trusted, and why.
func (f *Folder) Corrupt(detail string) error { return &CorruptError{Path: f.Path(), Detail: detail} }

// CheckFile makes SQLite look for damage, table by table so that ctx can end it between two.
func (s *Store) CheckFile(ctx context.Context) error {
	return s.View(func(tx *Tx) error {
		tables, err := Values[string](tx, `SELECT name FROM sqlite_schema WHERE type = 'table'`)
		for i := 0; err == nil && i < len(tables); i++ {
			var verdict string
			verdict, err = Value[string](tx, `SELECT quick_check FROM pragma_quick_check(?)`, tables[i])
			if err == nil && verdict != "ok" {
				err = s.Corrupt(verdict)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		return err
	})
}

// Sent is what a small file beside the state says of the paid call that was sent last. It is written
// and synced before the call leaves, so that a state that lost the end of its file or of its log, or was
// replaced by an older copy, is noticed before anything is bought with it.
type Sent struct {
	Attempt int64 `json:"attempt"` // its row in the ledger; 0 if no paid call was sent
	Bytes   int64 `json:"bytes"`   // size of the SQLite file then
}

// SentPath returns the path of that file.
func (f *Folder) SentPath() string { return filepath.Join(f.dir, "sent.json") }

// Sent returns what the file said before the state was opened.
func (f *Folder) Sent() Sent { return f.sent }

// RecordSent records the paid call that is about to be sent, once the state has it.
func (f *Folder) RecordSent(attempt int64) error {
	info, err := os.Stat(f.Path())
	if err != nil {
		return err
	}
	text, err := json.Marshal(Sent{Attempt: attempt, Bytes: info.Size()})
	if err != nil {
		return err
	}
	return durable.WriteFile(f.SentPath(), append(text, '\n'), 0o600)
}

// readSent reads the file. It is missing before the first paid call, and after a power failure it may be
// unreadable; the whole state is checked then.
func (f *Folder) readSent() error {
	text, err := os.ReadFile(f.SentPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && json.Unmarshal(text, &f.sent) != nil {
		f.sent = Sent{}
	}
	return err
}

// checkSize returns a [*CorruptError] if the end of the SQLite file is missing, which SQLite itself does
// not notice if it is less than a page. With a log, which may have the last pages, the header does not say
// how many the file has.
func (f *Folder) checkSize(log bool) error {
	file, err := os.Open(f.Path())
	if err != nil {
		return err
	}
	defer file.Close() // it was only read
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	header := make([]byte, 100)
	if _, err := io.ReadFull(file, header); err != nil || string(header[:16]) != "SQLite format 3\x00" {
		return nil // SQLite says what it is
	}
	page, pages := int64(binary.BigEndian.Uint16(header[16:])), int64(binary.BigEndian.Uint32(header[28:]))
	if page == 1 {
		page = 1 << 16
	}
	if page > 0 && (info.Size()%page != 0 || !log && info.Size() < page*pages) {
		return f.Corrupt(fmt.Sprintf("it has %d bytes, and its end is missing", info.Size()))
	}
	return nil
}
