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
		Long: `Check the state in data/state: the database file, the sums of the ledger, and the checksum
of every answer in the journal. It lists the answers by operation and changes nothing. It
works while another instance is running. A million answers take about 10 seconds.

outlierd makes the same check when it starts after the machine went down, or after SQLite
reported damage. After it was killed it checks what was written last.`,
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
		return fmt.Errorf("there is no state in %s yet; the first run creates it", folder)
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
