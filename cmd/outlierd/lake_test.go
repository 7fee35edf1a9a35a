//go:build iceberg

package main

import (
	"testing"

	"outlierd/cmd/outlierd/programtest"
)

// TestLakeScripts runs the scripts with a lake in a folder, with a SQLite catalog.
func TestLakeScripts(t *testing.T) { programtest.Scripts(t, "testdata/lake") }
