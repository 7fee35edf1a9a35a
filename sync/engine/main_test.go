package engine

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"outlierd/internal/testenv"
	"outlierd/sinks/duckdb/database"
	"outlierd/sync/state"
)

var long = flag.Bool("long", false, "play months whole, in place of weeks, and every case, in place of one by chance")

// seedsToPlay returns the seeds from 0 on if a flag gives their number. Otherwise it returns a few random
// ones of the seeds in the commands of CONTRIBUTING.md.
func seedsToPlay(t *testing.T, asked, few, all int) []uint64 {
	t.Helper()
	var seeds []uint64
	if asked > 0 {
		for seed := range uint64(asked) {
			seeds = append(seeds, uint64(*firstSchedule)+seed)
		}
		return seeds
	}
	for _, seed := range rand.Perm(all)[:few] {
		seeds = append(seeds, uint64(seed))
	}
	slices.Sort(seeds)
	t.Logf("seeds by chance: %d", seeds)
	return seeds
}

// blank is the state of an unused data folder. Copying it is much faster than creating it.
var blank []byte

// reader reads published files for all tests: starting DuckDB takes much longer than their queries.
var reader struct {
	sync.Mutex
	*database.DB
}

// TestMain creates what tests share outside of bubbles of virtual time.
func TestMain(m *testing.M) {
	testenv.Prepare()
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

// prepare copies the blank state to a folder without one.
func prepare(folder string) error {
	file := filepath.Join(folder, "state.db")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, blank, 0o600)
}
