package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"outlierd/outlier"
	"outlierd/sync/backup"
	"outlierd/sync/state"
)

func backupCommand(o *options) *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "backup FOLDER",
		Short: "Copy the state to another folder",
		Long: `Copy a consistent snapshot of the state to another folder, with a checksum. It works while
another instance is running. The state holds the ledger, the journal and the queue. The tables
are not copied, because they can be rebuilt from the journal. Each backup is a full copy, and
replaces the previous one in the folder when it is complete.

The job file is not copied, because it may contain a key.`,
		Example: "  outlierd backup /mnt/backup/outlierd\n  outlierd backup --check /mnt/backup/outlierd",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.backup(c.Context(), args[0], check) },
	}
	c.Flags().BoolVar(&check, "check", false, "check the backup in the folder, and write nothing")
	return c
}

func (o *options) backup(ctx context.Context, to string, check bool) error {
	if err := o.tableOrJSON(); err != nil {
		return err
	}
	if check {
		m, err := backup.Verify(to)
		if err != nil {
			return err
		}
		return o.done(m, "the backup in %s is undamaged; made on %s: %d answers, %d bytes\n", to, m.At.Format(time.RFC3339), m.Answers, m.Bytes)
	}
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	folder := stateFolder(config)
	m, err := backup.Write(ctx, folder, to, stateOptions(config))
	if errors.Is(err, fs.ErrNotExist) && missing(folder) {
		return fmt.Errorf("there is no state in %s yet; the first run creates it", folder)
	}
	if err != nil {
		return err
	}
	return o.done(m, "backed up to %s: %d answers, %d bytes\n", filepath.Join(to, m.File), m.Answers, m.Bytes)
}

func restoreCommand(o *options) *cobra.Command {
	var spent int
	c := &cobra.Command{
		Use:   "restore FOLDER --spent N",
		Short: "Restore the state from a backup",
		Long: `Check a backup and restore it into a folder that has no state. The next run, or
'outlierd rebuild', builds the tables from its journal.

A backup has no record of what was spent after it was made. Look that up at the service, and
pass it as --spent, or 0 if nothing was spent. The credits are booked in the current billing
cycle, so that its cap holds. If a scan was started after the backup, link it with 'outlierd
scan adopt' before a job starts it again. The backup still contains what 'outlierd forget'
erased after it was made: erase it again.`,
		Example: "  outlierd restore /mnt/backup/outlierd --spent 12",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("spent") {
				return o.unknownSpent(args[0])
			}
			if spent < 0 {
				return usageError{fmt.Errorf("--spent must not be negative, got %d", spent)}
			}
			return o.restore(c.Context(), args[0], outlier.Credits(spent))
		},
	}
	c.Flags().IntVar(&spent, "spent", 0, "credits that were spent after the backup was made")
	return c
}

// unknownSpent says what a person has to look up before a backup is restored.
func (o *options) unknownSpent(from string) error {
	m, err := backup.Verify(from)
	if err != nil {
		return err
	}
	return usageError{fmt.Errorf("the backup is of %s and has no record of what was spent since: look it up at the service, "+
		"and pass it as --spent N, or 0 if nothing was spent", m.At.Format(time.RFC3339))}
}

func (o *options) restore(ctx context.Context, from string, spent outlier.Credits) error {
	if err := o.tableOrJSON(); err != nil {
		return err
	}
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	folder := stateFolder(config)
	m, err := backup.Restore(ctx, from, folder, stateOptions(config), func(s *state.Store, m backup.Manifest) error {
		if spent == 0 {
			return nil
		}
		return s.Ledger.Adjust(spent, "spent after the backup of "+m.At.Format(time.RFC3339))
	})
	if err != nil {
		return err
	}
	return o.done(m, "restored %s from the backup of %s: %d answers; %d credits booked as spent since\n"+
		"What 'outlierd forget' erased after that backup was restored too: erase it again.\n",
		relative(folder), m.At.Format(time.RFC3339), m.Answers, spent)
}
