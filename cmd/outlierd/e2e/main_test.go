// Package e2e tests the program as a user and a machine meet it: processes that are killed, stopped, moved, copied and
// read at once, against a service on loopback. Scripts of single commands are in cmd/outlierd/testdata.
package e2e

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"outlierd/cmd/outlierd/command"
	"outlierd/cmd/outlierd/programtest"
)

func TestMain(m *testing.M) {
	// Most tests wait for processes, so that more of them at a time use all processors. A flag on the command line, which
	// is parsed later, overrides this.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	programtest.Main(m, command.Main)
}
