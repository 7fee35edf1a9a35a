package queue_test

import (
	"flag"
	"os"
	"testing"

	"outlierd/testdir"
)

// TestMain: each check of a model costs a database; ask for more with -rapid.checks.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	testdir.InMemory()
	os.Exit(m.Run())
}
