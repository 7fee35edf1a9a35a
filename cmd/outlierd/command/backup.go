package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/outlier"
	"outlierd/sinks/bucket"
	"outlierd/sync/backup"
	"outlierd/sync/job"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

func backupCommand(o *options) *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:   "backup FOLDER|ADDRESS",
		Short: "Copy the state to another folder or to a bucket",
		Long: `Copy a consistent snapshot of the state to another folder or to a bucket, with a checksum. It
works while another instance is running. The state contains the ledger, the journal and the queue.
The tables are not copied, because they can be rebuilt from the journal. Each backup is a full
copy, and replaces the previous one in its place when it is complete. It does not replace one
that has more answers: that is the backup of another state, or of a newer one.

The address of a bucket is s3://BUCKET/PREFIX, or az://CONTAINER/PREFIX of Azure Blob Storage.
Credentials and the address of the store come from the variables of AWS's own tools, such as
AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL, or of Azure's, such as AZURE_STORAGE_CONNECTION_STRING,
as for Parquet files in a bucket. The copy is made in data/state/tmp first, and needs as much
space there as the state.

The job file is not copied, because it may contain a key.`,
		Example: "  outlierd backup /mnt/backup/outlierd\n  outlierd backup s3://acme-backup/outlierd\n" +
			"  outlierd backup --check s3://acme-backup/outlierd",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.backup(c.Context(), args[0], check) },
	}
	c.Flags().BoolVar(&check, "check", false, "compare the existing backup with its checksum; write nothing")
	return c
}

func (o *options) backup(ctx context.Context, to string, check bool) error {
	if check {
		place, err := o.backupPlace(to, "")
		if err != nil {
			return err
		}
		m, err := backup.Verify(ctx, place)
		if err != nil {
			return err
		}
		return o.done(m, "the backup in %s is undamaged; made on %s: %d answers, %d bytes\n", place,
			m.At.Format(time.RFC3339), m.Answers, m.Bytes)
	}
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	if folder := stateFolder(config); isMissing(folder) {
		return &store.NoStateError{Dir: folder}
	}
	if job.BucketAddress(to) == "" {
		if err := refuseOwn(config, to); err != nil {
			return err
		}
	}
	m, place, err := o.writeBackup(ctx, config, to)
	if err != nil {
		return err
	}
	return o.done(m, "backed up to %s/%s: %d answers, %d bytes\n",
		strings.TrimRight(place.String(), "/"), m.File, m.Answers, m.Bytes)
}

func (o *options) writeBackup(ctx context.Context, config *job.Config,
	to string) (m backup.Manifest, place backup.Place, err error) {
	temp := "" // not needed for a folder
	if job.BucketAddress(to) != "" {
		made, err := newTemporary(config)
		if err != nil {
			return m, nil, err
		}
		defer func() { err = errors.Join(err, made.Close()) }()
		temp = made.path
	}
	if place, err = o.backupPlace(to, temp); err != nil {
		return m, nil, err
	}
	m, err = backup.Write(ctx, stateFolder(config), place, stateOptions(config))
	return m, place, err
}

// backupPlace opens the place of backups that the user named: a folder or a bucket. The copy for a
// bucket is prepared in the folder temp.
func (o *options) backupPlace(text, temp string) (backup.Place, error) {
	address := job.BucketAddress(text)
	switch {
	case address != "":
		return bucket.OpenFiles(bucket.Options{Address: address, Env: o.world.env}, temp, "run the command again")
	case strings.Contains(text, "://") || strings.Contains(text, "AccountKey="): // it may contain a key
		return nil, usageError{errors.New("a backup is kept in a folder, " +
			"or at an address like s3://bucket/prefix or az://container/prefix, with only letters, " +
			"digits and . _ -; keys and the account come from the environment, " +
			"such as AWS_ACCESS_KEY_ID or AZURE_STORAGE_ACCOUNT")}
	}
	return backup.Folder(text), nil
}

func restoreCommand(o *options) *cobra.Command {
	var spent int64
	c := &cobra.Command{
		Use:   "restore FOLDER|ADDRESS --spent N",
		Short: "Restore the state from a backup",
		Long: `Check a backup in a folder or bucket, and restore it into a data folder that has no state.
The next run, or 'outlierd rebuild', builds the tables from its journal.

A backup has no record of what was spent after it was made. Look that up at the service, and
pass it as --spent, or 0 if nothing was spent. The credits are booked in the current billing
cycle, so that its cap holds. If a scan was started after the backup, link it with 'outlierd
scan adopt' before a job starts it again. The backup still contains what 'outlierd forget'
erased after it was made: erase it again.`,
		Example: "  outlierd restore /mnt/backup/outlierd --spent 12\n" +
			"  outlierd restore s3://acme-backup/outlierd --spent 12",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("spent") {
				return o.unknownSpent(c.Context(), args[0])
			}
			if err := job.CheckCredits(spent); err != nil && spent != 0 {
				return usageError{fmt.Errorf("--spent must be 0, or %w", err)}
			}
			return o.restore(c.Context(), args[0], outlier.Credits(spent))
		},
	}
	c.Flags().Int64Var(&spent, "spent", 0, "credits that were spent after the backup was made")
	return c
}

// unknownSpent tells the user to look up what was spent since a backup.
func (o *options) unknownSpent(ctx context.Context, from string) error {
	place, err := o.backupPlace(from, "")
	if err != nil {
		return err
	}
	m, err := backup.Verify(ctx, place)
	if err != nil {
		return err
	}
	return usageError{fmt.Errorf("the backup is of %s and has no record of what was spent since: "+
		"look it up at the service, and pass it as --spent N, or 0 if nothing was spent", m.At.Format(time.RFC3339))}
}

func (o *options) restore(ctx context.Context, from string, spent outlier.Credits) error {
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	place, err := o.backupPlace(from, "")
	if err != nil {
		return err
	}
	log, err := o.logger()
	if err != nil {
		return err
	}
	folder := stateFolder(config)
	m, err := backup.Restore(ctx, place, folder, stateOptions(config), func(s *state.Store, m backup.Manifest) error {
		if spent == 0 {
			return nil
		}
		return s.Ledger.Adjust(spent, "spent after the backup of "+m.At.Format(time.RFC3339))
	})
	if err != nil {
		return err
	}
	warnOfRoot(log, config.Data)
	return o.done(m, "restored %s from the backup of %s: %d answers; %d credits booked as spent since\n"+
		"What 'outlierd forget' erased after that backup was restored too: erase it again.\n",
		report.Path(folder), m.At.Format(time.RFC3339), m.Answers, spent)
}
