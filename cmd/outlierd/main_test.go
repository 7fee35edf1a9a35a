package main

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be the program too: scripts and the tests that
// kill it run `outlierd` as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"outlierd": func() { os.Exit(Main()) }})
}

// TestScripts runs the program as a person would; each script is one promise.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitfor": waitFor, "waitport": waitPort,
		},
	})
}

// waitFor waits until a file exists and is not empty.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitfor file")
	}
	path := ts.MkAbs(args[0])
	for range time.Tick(10 * time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
	}
}

// waitPort waits until somebody listens at an address.
func waitPort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: waitport address")
	}
	for range time.Tick(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", args[0]); err == nil {
			ts.Check(conn.Close())
			return
		}
	}
}
