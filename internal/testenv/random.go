package testenv

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// Seed is the seed of the random choices of all tests in this process: TEST_SEED, or one by chance.
var Seed = sync.OnceValue(func() uint64 {
	text := os.Getenv("TEST_SEED")
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic("TEST_SEED: " + err.Error())
	}
	return seed
})

// Random returns the random numbers of a test, which are the same for a [Seed] and the test's name, whatever other
// tests do. A test that fails says how to repeat its choices.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("TEST_SEED=%d repeats the random choices", Seed())
		}
	})
	name := fnv.New64a()
	name.Write([]byte(t.Name())) // writing to a hash does not fail
	return rand.New(rand.NewPCG(Seed(), name.Sum64()))
}

// Seeds returns the seeds that a test plays: those from 0 on if a flag asks for a number of them, and otherwise a few
// of all, by chance.
func Seeds(t testing.TB, asked, few, all int) (seeds []uint64) {
	t.Helper()
	if asked > 0 {
		for seed := range uint64(asked) {
			seeds = append(seeds, seed)
		}
		return seeds
	}
	for _, seed := range Random(t).Perm(all)[:few] {
		seeds = append(seeds, uint64(seed))
	}
	slices.Sort(seeds)
	t.Logf("seeds by chance: %d", seeds)
	return seeds
}
