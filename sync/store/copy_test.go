package store_test

import (
	"os"
	"strings"
	"testing"

	"outlierd/sync/store"
)

// upgraded opens a state folder with so many migrations, and closes it.
func upgraded(t *testing.T, dir string, versions int, free uint64) error {
	t.Helper()
	steps := []string{`CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT`}
	for range versions - 1 {
		steps = append(steps, `INSERT INTO meta VALUES (hex(randomblob(8)), 'step')`)
	}
	s, err := store.Open(t.Context(), dir, store.Options{Migrations: steps, FreeSpace: func(string) (uint64, error) { return free, nil }})
	if err != nil {
		return err
	}
	return s.Close()
}

func TestCopyIsKeptBeforeAnUpgrade(t *testing.T) {
	dir := t.TempDir()
	const plenty = 1 << 40
	for version := 1; version <= 5; version++ {
		if err := upgraded(t, dir, version, plenty); err != nil {
			t.Fatal(err)
		}
		if err := upgraded(t, dir, version, plenty); err != nil { // which changes nothing
			t.Fatal(err)
		}
	}
	copies, err := store.RestorePoints(dir)
	if err != nil || len(copies) != 2 || !strings.HasSuffix(copies[1], "-version-4.db") {
		t.Fatalf("copies %v, error %v; want those of versions 3 and 4", copies, err)
	}

	err = upgraded(t, dir, 4, plenty)
	if err == nil || !strings.HasSuffix(err.Error(), copies[1]) {
		t.Errorf("an older program says %v; want the way back: %s", err, copies[1])
	}
	if err := upgraded(t, dir, 6, 1<<20); err == nil || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("without space for a copy: %v", err)
	}

	// The copy is what the older program needs.
	if err := os.Rename(copies[1], dir+"/state.db"); err != nil {
		t.Fatal(err)
	}
	if err := upgraded(t, dir, 4, plenty); err != nil {
		t.Error(err)
	}
}
