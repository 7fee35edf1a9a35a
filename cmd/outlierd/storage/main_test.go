// Package storage tests the commands about what is stored: sinks, buckets, check, rebuild, forget, backup and restore.
package storage

import (
	"testing"

	"outlierd/cmd/outlierd/command"
	"outlierd/cmd/outlierd/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, command.Main) }

// TestScripts runs the program as a user would.
func TestScripts(t *testing.T) { programtest.Scripts(t, "testdata/script") }
