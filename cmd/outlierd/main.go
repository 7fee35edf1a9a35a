// Command outlierd buys outlier-video data on a schedule, within a budget, and
// keeps it in DuckDB and Parquet.
//
// CONTRIBUTING.md says what each package knows, in an order for reading: a package imports only what stands above it.
package main

import (
	"os"

	"outlierd/cmd/outlierd/command"
)

func main() {
	os.Exit(command.Main())
}
