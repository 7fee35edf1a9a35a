// Package e2e tests the program as a user and a machine meet it: processes that are killed, stopped, moved, copied and
// read at once, against a service on loopback. Scripts of single commands are in cmd/outlierd/testdata.
package e2e

import (
	"testing"

	"outlierd/cmd/outlierd/command"
	"outlierd/cmd/outlierd/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, command.Main) }
