package journal_test

import (
	"flag"
	"testing"

	"outlierd/internal/testenv"
)

// TestMain: each check of a model costs a database; ask for more with -rapid.checks.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "40"); err != nil {
		panic(err)
	}
	testenv.Prepare()
	m.Run()
}
