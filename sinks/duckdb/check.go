package duckdb

import (
	"os"
	"path/filepath"
	"strings"
)

// PrivateName is the name of the writer's file in the folder of the state.
const PrivateName = "warehouse.duckdb"

// SpareOf returns the path of the file that a sink keeps beside its published one, for the next publication.
func SpareOf(published string) string {
	return filepath.Join(filepath.Dir(published), "."+filepath.Base(published)+".spare")
}

// CheckFile reports whether a DuckDB file is at path, by its first bytes.
func CheckFile(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	return checkFile(path, "it is damaged, or another program's")
}

// InUse reports whether a file could not be opened because a process writes to it.
func InUse(err error) bool { return err != nil && strings.Contains(err.Error(), "Could not set lock") }
