//go:build azure

package storage

import (
	"testing"

	"outlierd/cmd/outlierd/programtest"
)

// TestAzureScripts runs the scripts with a container of Azure as a bucket.
func TestAzureScripts(t *testing.T) { programtest.Scripts(t, "testdata/azure") }
