package job

import (
	"testing"

	"outlierd/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Prepare()
	m.Run()
}
