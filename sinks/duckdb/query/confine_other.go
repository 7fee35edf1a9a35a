//go:build !linux

package query

// Confine does nothing: only on Linux are there reliable limits. DuckDB's own memory limit applies.
func Confine() error { return nil }
