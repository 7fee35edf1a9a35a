package main

import (
	"testing"

	"outlierd/cmd/outlierd/command"
	"outlierd/cmd/outlierd/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, command.Main) }

// TestScripts runs the program as a user would.
func TestScripts(t *testing.T) { programtest.Scripts(t, "testdata/script") }
