package forecast

import (
	"testing"

	"outlierd/testdir"
)

func TestMain(m *testing.M) {
	testdir.InMemory()
	m.Run()
}
