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
	"outlierd/sync/state/statetest"
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

// blankWarehouse is the file of a warehouse without rows. Copying it is much faster than creating one.
var blankWarehouse []byte

// reader reads published files for all tests: starting DuckDB takes much longer than their queries.
var reader struct {
	sync.Mutex
	*database.DB
}

// TestMain creates what tests share outside of bubbles of virtual time.
func TestMain(m *testing.M) {
	testenv.Prepare()
	_, err := statetest.Blank()
	if err == nil {
		err = makeBlankWarehouse()
	}
	if err == nil {
		reader.DB, err = database.Open(context.Background(), database.Options{})
	}
	if err != nil {
		panic(err)
	}
	m.Run()
}

func makeBlankWarehouse() error {
	dir, err := os.MkdirTemp("", "blank")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, warehouse.Name)
	rows := warehouse.New(warehouse.Options{
		Path: path, Temp: filepath.Join(dir, "tmp"), Tables: schema.AllTables(),
	})
	_, err = rows.Marks(context.Background()) // which creates it
	if err = errors.Join(err, rows.Close()); err == nil {
		blankWarehouse, err = os.ReadFile(path)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// prepare gives a data folder without a state the blank one, and the blank warehouse if the folder is new.
func prepare(data string) error {
	_, noData := os.Stat(data)
	folder := filepath.Join(data, "state")
	if err := statetest.Prepare(folder); err != nil || !errors.Is(noData, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(filepath.Join(folder, warehouse.Name), blankWarehouse, 0o600)
}
