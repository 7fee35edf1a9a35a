//go:build !azure && !iceberg

package main

import (
	"testing"

	"outlierd/cmd/outlierd/programtest"
)

// TestUntaggedScripts runs the scripts about settings that need a build tag which this program lacks.
func TestUntaggedScripts(t *testing.T) { programtest.Scripts(t, "testdata/untagged") }
