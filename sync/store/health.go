package store

import "context"

// Doubt returns why the whole file must be checked before it is used; "" if that is not necessary.
// SQLite has reported damage, an earlier check did not finish, the machine went down while the file
// was open, or the file has become smaller. A kill can only interrupt the newest transaction, which SQLite rolls back; a
// machine that went down may have lost any page that was not yet on its disk.
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
