package engine

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/sinktest"
	"outlierd/sync/state"
)

var long = flag.Bool("long", false, "play months whole, in place of weeks, and every case, in place of one by chance")

// seedsToPlay returns the seeds from 0 on if a flag gives their number. Otherwise it returns a few random
// ones of the seeds in the commands of CONTRIBUTING.md.
func seedsToPlay(t *testing.T, asked, few, all int) []uint64 {
	t.Helper()
	seeds := testenv.Seeds(t, asked, few, all)
	for i := range seeds[:asked] {
		seeds[i] += uint64(*firstSchedule)
	}
	return seeds
}

// blank is the file of an unused state. Copying it is much faster than creating it.
var blank []byte

// reader reads published files for all tests: starting DuckDB takes much longer than their queries.
var reader struct {
	sync.Mutex
	*database.DB
}

// TestMain creates what tests share outside of bubbles of virtual time.
func TestMain(m *testing.M) {
	testenv.Prepare()
	defer sinktest.CopyNewWarehouses()()
	err := makeBlank()
	if err == nil {
		reader.DB, err = database.Open(context.Background(), database.Options{})
	}
	if err != nil {
		panic(err)
	}
	m.Run()
}

func makeBlank() (err error) {
	dir, err := os.MkdirTemp("", "blank")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := state.Open(context.Background(), dir, state.Options{MinFree: littleRoom})
	if err != nil {
		return err
	}
	if err := store.Close(); err != nil {
		return err
	}
	blank, err = os.ReadFile(filepath.Join(dir, "state.db"))
	return err
}

// prepare gives a folder without a state the blank one.
func prepare(folder string) error {
	file := filepath.Join(folder, "state.db")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(file, blank, 0o600))
}
