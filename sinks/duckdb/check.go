package duckdb

import (
	"os"
	"path/filepath"
	"strings"
)

// PrivateName is the name of the writer's file in the folder of the state.
const PrivateName = "warehouse.duckdb"

// SpareOf returns the path of the spare: the file that a sink keeps beside the published one, for the
// next publication.
func SpareOf(published string) string {
	return filepath.Join(filepath.Dir(published), "."+filepath.Base(published)+".spare")
}

// CheckFile returns an error if the file at path is missing or does not begin like a DuckDB file.
func CheckFile(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	return checkFile(path, "it is damaged, or another program's")
}

// InUse reports whether opening a file failed because another process writes to it.
func InUse(err error) bool { return err != nil && strings.Contains(err.Error(), "Could not set lock") }
