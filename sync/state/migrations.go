package state

import (
	"embed"
	"fmt"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the steps that lead from one schema version to the next, in the order of their
// files. The version of a state is the number of steps applied to it, so once a release has a step, it
// never changes. All packages that own tables share one list, as a step may change tables of several.
func migrations() (steps []string) {
	files, err := migrationFiles.ReadDir("migrations")
	for _, file := range files {
		text, failed := migrationFiles.ReadFile("migrations/" + file.Name())
		if steps = append(steps, string(text)); failed != nil {
			err = failed
		}
	}
	if err != nil {
		panic(fmt.Sprintf("embedded migrations: %v", err))
	}
	return steps
}
