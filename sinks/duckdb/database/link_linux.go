package database

// DuckDB's bindings make the linker export every symbol, for extensions that are loaded at run time.
// This program loads none, and the table of 60,000 names needs 7 MB of memory per process.

// #cgo LDFLAGS: -Wl,--no-export-dynamic
import "C"
