package command

import (
	"testing"

	"outlierd/cmd/outlierd/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, Main) }
