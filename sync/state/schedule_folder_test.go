package state_test

import (
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"outlierd/sync/state"
)

// folder is what all schedules begin with: a state folder without a history, kept in
// memory, so that a thousand of them need not be brought to the schema one by one.
type folder struct {
	home  string // where copies go
	db    []byte
	zones []*time.Location
}

func newFolder(t *testing.T) folder {
	t.Helper()
	f := folder{home: t.TempDir(), zones: []*time.Location{time.UTC}}
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Pacific/Auckland"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		f.zones = append(f.zones, zone)
	}
	dir := t.TempDir()
	s, err := state.Open(t.Context(), dir, state.Options{})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if f.db, err = os.ReadFile(filepath.Join(dir, "state.db")); err != nil {
		t.Fatal(err)
	}
	return f
}

// forgetting is a folder whose caps count what meets a condition alone.
func (f folder) forgetting(t *testing.T, condition string) folder {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, f.db, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	var view string
	if err := db.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = 'cap_sums'`).Scan(&view); err != nil {
		t.Fatal(err)
	}
	const honest = "price > 0 AND state <> 'refunded' AND counts_at >= caps.begins"
	spoiled := strings.Replace(view, honest, honest+" AND ("+condition+")", 1)
	if spoiled == view {
		t.Fatalf("there is nothing to spoil in %s", view)
	}
	if _, err := db.Exec(`DROP VIEW cap_sums; ` + spoiled); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if f.db, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return f
}

// write makes a copy.
func (f folder) write(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "state.db"), f.db, 0o600)
}

// copyState copies a state folder that is in use, as a kill would leave it now.
func copyState(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"state.db", "state.db-wal"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
