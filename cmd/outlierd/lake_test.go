//go:build iceberg

package main

import "testing"

// TestLakeScripts runs the scripts that fill a lake: a folder with a SQLite catalog.
func TestLakeScripts(t *testing.T) { runScripts(t, "testdata/lake") }
