package engine

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/compress"

	"outlierd/sync/state"
)

var long = flag.Bool("long", false, "play months whole, in place of weeks")

// seedsToPlay are the seeds 0 to asked, if a flag asks for that many, and otherwise a few
// by chance of those that the commands of CONTRIBUTING.md play, so that ordinary runs
// play all of them in time.
func seedsToPlay(t *testing.T, asked, few, all int) []uint64 {
	t.Helper()
	var seeds []uint64
	if asked > 0 {
		for seed := range uint64(asked) {
			seeds = append(seeds, seed)
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

// blankState is a state folder's database in which nothing has happened. To copy it is
// much faster than to make it, which the race detector turns into seconds.
var blankState []byte

// TestMain makes what tests share outside of any bubble of virtual time. Arrow's one
// decompressor is among it: it holds channels, which must not belong to the first test.
func TestMain(m *testing.M) {
	codec, err := compress.GetCodec(compress.Codecs.Zstd)
	if err == nil {
		text := []byte("made outside of any bubble")
		codec.Decode(make([]byte, len(text)), codec.Encode(nil, text))
		blankState, err = makeBlankState()
	}
	if err != nil {
		panic(err)
	}
	m.Run()
}

func makeBlankState() ([]byte, error) {
	dir, err := os.MkdirTemp("", "blank")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := state.Open(context.Background(), dir, state.Options{})
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, "state.db"))
}

// prepareState lays the blank state into a folder that has none.
func prepareState(folder string) error {
	path := filepath.Join(folder, "state.db")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, blankState, 0o600)
}
