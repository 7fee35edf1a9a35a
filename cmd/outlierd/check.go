package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"outlierd/sync/state"
)

func checkCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Check the state for damage",
		Long: `Checks the whole state in data/state: the file itself, that the ledger adds up, and
that every answer in the journal matches its checksum. It lists what the journal holds
by operation, changes nothing and works beside a running instance. A million answers take about 10 seconds.

The program makes the same check when it starts after the machine went down, or after
SQLite has reported damage. After a kill it checks what was written last.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.check(c.Context()) },
	}
}

// check verifies the state and prints what was checked.
func (o *options) check(ctx context.Context) error {
	if err := o.tableOrJSON(); err != nil {
		return err
	}
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	folder := filepath.Join(config.Data, "state")
	seen, err := state.Peek(ctx, folder, stateOptions(config))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no state in %s yet: it is made by the first run", folder)
	}
	if err != nil {
		return unreadable(err, folder)
	}
	checked, err := seen.Check(ctx)
	if err := errors.Join(err, seen.Close()); err != nil {
		return err
	}
	if err := o.done(checked, "no damage: %d answers, %d periods of the ledger\n", checked.Answers, checked.Periods); err != nil || o.forPrograms() {
		return err
	}
	var rows [][]any
	for _, part := range checked.Journal {
		rows = append(rows, []any{string(part.Op), part.Answers, part.Bytes, part.First, part.Last})
	}
	return o.rows([]string{"operation", "answers", "bytes", "first_at", "last_at"}, rows)
}
