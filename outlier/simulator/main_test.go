package simulator

import (
	"testing"

	"outlierd/testenv"
)

func TestMain(m *testing.M) {
	testenv.Prepare()
	m.Run()
}
