package duckdb

import "os"

// PrivateName is the name of the writer's file in the folder of the state.
const PrivateName = "warehouse.duckdb"

// CheckFile reports whether a DuckDB file is at path, by its first bytes.
func CheckFile(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	return checkFile(path, "it is damaged, or another program's")
}
