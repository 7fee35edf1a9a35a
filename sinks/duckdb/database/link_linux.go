package database

// DuckDB's bindings ask the linker to export every symbol, for extensions that are loaded at run
// time. We load none, and the table of 60,000 names takes 7 MB of each process's memory.

// #cgo LDFLAGS: -Wl,--no-export-dynamic
import "C"
