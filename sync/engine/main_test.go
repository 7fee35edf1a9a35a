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
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/warehouse"
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

// blank has the files of the state folder of an unused data folder. Copying them is much faster than creating them.
var blank struct{ state, warehouse []byte }

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
	if blank.state, err = os.ReadFile(filepath.Join(dir, "state.db")); err != nil {
		return err
	}
	rows := warehouse.New(warehouse.Options{
		Path: filepath.Join(dir, warehouse.Name), Temp: filepath.Join(dir, "tmp"), Tables: schema.Tables(), Ops: schema.OpsTables(),
	})
	_, err = rows.Marks(context.Background()) // which creates it
	if err := errors.Join(err, rows.Close()); err != nil {
		return err
	}
	blank.warehouse, err = os.ReadFile(filepath.Join(dir, warehouse.Name))
	return err
}

// prepare gives a data folder without a state the blank one, and the blank warehouse if the folder is new.
func prepare(data string) error {
	_, noData := os.Stat(data)
	folder := filepath.Join(data, "state")
	file := filepath.Join(folder, "state.db")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if errors.Is(noData, os.ErrNotExist) {
		if err := os.WriteFile(filepath.Join(folder, warehouse.Name), blank.warehouse, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(file, blank.state, 0o600)
}
