package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/report"
	"outlierd/internal/sealed"
	"outlierd/outlier"
	"outlierd/sinks/bucket"
	"outlierd/sync/backup"
	"outlierd/sync/job"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

func backupCommand(g *globals) *cobra.Command {
	var check bool
	var encrypt []string
	var which chosenBackup
	c := &cobra.Command{
		Use:   "backup [FOLDER|ADDRESS]",
		Short: "Copy the state to another folder or to a bucket",
		Long: `Copy a consistent snapshot of the state to another folder or to a bucket, with a checksum. The
state contains the ledger, the journal and the queue; tables can be rebuilt from the journal.
Each backup is a full copy, and replaces the oldest one in its place once it was read back. The
job file is not copied, because it may contain a key.

With "backup" in the job file 'outlierd up' does this by itself. Without an argument the
command makes such a backup now.

The address of a bucket is s3://BUCKET/PREFIX, or az://CONTAINER/PREFIX of Azure Blob Storage.
Credentials and the address of the store come from the variables of AWS's own tools, such as
AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL, or of Azure's, such as AZURE_STORAGE_CONNECTION_STRING.`,
		Example: "  outlierd backup /mnt/backup/outlierd\n  outlierd backup s3://acme-backup/outlierd\n" +
			"  outlierd backup --encrypt age1fgqcx89j7y239e92jfzpswmeq9940tn84lpvx282h4halrlx9aks9p05m2 /mnt/backup\n" +
			"  outlierd backup --check s3://acme-backup/outlierd",
		RunE: func(c *cobra.Command, args []string) error {
			if check {
				return checkBackup(c.Context(), g, args, which)
			}
			if which != (chosenBackup{}) {
				return usageError{errors.New("--file and --identity need --check: a backup is encrypted to a public key, with --encrypt")}
			}
			return makeBackupNow(c.Context(), g, args, encrypt)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "compare an existing backup with its checksum; write nothing")
	c.Flags().StringArrayVar(&encrypt, "encrypt", nil, "encrypt to this `public key` of age; may be repeated")
	which.addFlags(c)
	return c
}

// chosenBackup has the flags that say which backup to read.
type chosenBackup struct{ file, identity string }

func (w *chosenBackup) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&w.file, "file", "", "the `name` of a backup; without it the newest")
	c.Flags().StringVar(&w.identity, "identity", "", "an identity `file` of age, for an encrypted backup; - for standard input")
}

// read reads the identity.
func (w *chosenBackup) read(in io.Reader) (which backup.Which, err error) {
	which.File = w.file
	switch w.identity {
	case "":
	case "-":
		which.Identity, err = sealed.ReadIdentity(in)
	default:
		var file *os.File
		if file, err = os.Open(w.identity); err == nil {
			which.Identity, err = sealed.ReadIdentity(file)
			err = errors.Join(err, file.Close())
		}
	}
	if err != nil {
		err = usageError{fmt.Errorf("--identity: %w", err)}
	}
	return which, err
}

// backupTarget returns the settings of a backup by hand: those of the job file, if it is to that place.
func backupTarget(config *job.Config, args, encrypt []string) (*job.Backup, error) {
	to := config.Backup
	if len(args) > 0 {
		full, err := filepath.Abs(args[0])
		if err != nil {
			return nil, err
		}
		if address := job.BucketAddress(args[0]); address != "" {
			full = address
		}
		if to == nil || to.To != full {
			to = &job.Backup{To: args[0]}
		}
	}
	if to == nil {
		return nil, usageError{errors.New("name a folder or the address of a bucket, or set `backup` in the job file")}
	}
	if len(encrypt) > 0 {
		if err := sealed.Check(encrypt); err != nil {
			return nil, usageError{fmt.Errorf("--encrypt: %w", err)}
		}
		to = &job.Backup{To: to.To, Keep: to.Keep, Encrypt: encrypt}
	}
	return to, nil
}

func checkBackup(ctx context.Context, g *globals, args []string, chosen chosenBackup) error {
	var config job.Config // a check needs no job file if the place is named
	if len(args) == 0 {
		loaded, err := g.loadToRead()
		if err != nil {
			return err
		}
		config = *loaded
	}
	to, err := backupTarget(&config, args, nil)
	if err != nil {
		return err
	}
	place, err := backupPlace(g.world.env, to.To, "")
	if err != nil {
		return err
	}
	which, err := chosen.read(g.world.in)
	if err != nil {
		return err
	}
	b, err := backup.Verify(ctx, place, which)
	if err != nil {
		return err
	}
	note := ""
	if b.Encrypted() && which.Identity == nil {
		note = "\nIt is encrypted, and was not decrypted: --identity FILE does that."
	}
	return g.out.print(b, "the backup in %s is undamaged; made on %s: %d answers, %d bytes%s\n", place,
		b.At.Format(time.RFC3339), b.Answers, b.Bytes, note)
}

func makeBackupNow(ctx context.Context, g *globals, args, encrypt []string) error {
	config, err := g.loadToRead()
	if err != nil {
		return err
	}
	to, err := backupTarget(config, args, encrypt)
	if err != nil {
		return err
	}
	if folder := stateFolder(config); isMissing(folder) {
		return &store.NoStateError{Dir: folder}
	}
	b, err := writeBackup(ctx, g.world.env, config, to, false)
	if err != nil {
		return err
	}
	return g.out.print(b, "backed up to %s/%s: %d answers, %d bytes\n",
		strings.TrimRight(to.To, "/"), b.File, b.Answers, b.Bytes)
}

// dailyBackups returns what makes the backups of the job file in a daemon.
func dailyBackups(p *program) *backup.Daily {
	return &backup.Daily{
		State: p.Engine.Store, Config: p.inUse.Load, Log: p.Engine.Log,
		Write: func(ctx context.Context, config *job.Config, known bool) (backup.Backup, error) {
			return writeBackup(ctx, p.env, config, config.Backup, known)
		},
		Newest: func(ctx context.Context, config *job.Config) (at time.Time, err error) {
			place, err := backupPlace(p.env, config.Backup.To, "")
			if err != nil {
				return at, err
			}
			b, err := backup.Newest(ctx, place)
			return b.At, err
		},
	}
}

func writeBackup(ctx context.Context, env lookup, config *job.Config, to *job.Backup, known bool) (b backup.Backup, err error) {
	if job.BucketAddress(to.To) == "" {
		if err := refuseOwn(config, to.To); err != nil {
			return b, err
		}
	}
	temp := "" // not needed for a plain copy in a folder
	if job.BucketAddress(to.To) != "" || len(to.Encrypt) > 0 {
		made, err := newTemporary(config)
		if err != nil {
			return b, err
		}
		defer func() { err = errors.Join(err, made.Close()) }()
		temp = made.path
	}
	place, err := backupPlace(env, to.To, temp)
	if err != nil {
		return b, err
	}
	return backup.Write(ctx, stateFolder(config), place, backup.Options{
		State: stateOptions(config), Recipients: to.Encrypt, Temp: temp, Keep: to.Keep, Known: known,
	})
}

// backupPlace opens the place of backups that the user named: a folder or a bucket. The copy for a
// bucket is prepared in the folder temp.
func backupPlace(env lookup, text, temp string) (backup.Place, error) {
	address := job.BucketAddress(text)
	switch {
	case address != "":
		return bucket.OpenFiles(bucket.Options{Address: address, Env: env}, temp)
	case strings.Contains(text, "://") || strings.Contains(text, "AccountKey="): // it may contain a key
		return nil, usageError{errors.New("a backup is kept in a folder, " +
			"or at an address like s3://bucket/prefix or az://container/prefix, with only letters, " +
			"digits and . _ -; keys and the account come from the environment, " +
			"such as AWS_ACCESS_KEY_ID or AZURE_STORAGE_ACCOUNT")}
	}
	return backup.Folder(text), nil
}

func restoreCommand(g *globals) *cobra.Command {
	var spent int64
	var chosen chosenBackup
	c := &cobra.Command{
		Use:   "restore FOLDER|ADDRESS --spent N",
		Short: "Restore the state from a backup",
		Long: `Check a backup in a folder or bucket, and restore it into a data folder that has no state.
The next run, or 'outlierd rebuild', builds the tables from its journal.

A backup has no record of what was spent after it was made. Look that up at the service, and
pass it as --spent, or 0 if nothing was spent. If a scan was started after the backup, link it
with 'outlierd scan adopt' before a job starts it again. The backup still contains what
'outlierd forget' erased after it was made: erase it again.`,
		Example: "  outlierd restore /mnt/backup/outlierd --spent 12\n" +
			"  outlierd restore s3://acme-backup/outlierd --spent 12\n" +
			"  outlierd restore s3://acme-backup/outlierd --spent 12 --identity key.age",
		RunE: func(c *cobra.Command, args []string) error {
			which, err := chosen.read(g.world.in)
			if err != nil {
				return err
			}
			if !c.Flags().Changed("spent") {
				return unknownSpent(c.Context(), g, args[0], which)
			}
			if err := job.CheckCredits(spent); err != nil && spent != 0 {
				return usageError{fmt.Errorf("--spent must be 0, or %w", err)}
			}
			if who := g.asker(); who != nil {
				which.Ask = func() (*sealed.Identity, error) {
					path, err := who.Line("The backup is encrypted. Identity file:")
					if err != nil {
						return nil, err
					}
					asked, err := (&chosenBackup{identity: path}).read(g.world.in)
					return asked.Identity, err
				}
			}
			return restoreBackup(c.Context(), g, args[0], which, outlier.Credits(spent))
		},
	}
	c.Flags().Int64Var(&spent, "spent", 0, "credits that were spent after the backup was made")
	chosen.addFlags(c)
	return c
}

// unknownSpent tells the user to look up what was spent since a backup.
func unknownSpent(ctx context.Context, g *globals, from string, which backup.Which) error {
	place, err := backupPlace(g.world.env, from, "")
	if err != nil {
		return err
	}
	m, err := backup.Verify(ctx, place, which)
	if err != nil {
		return err
	}
	return usageError{fmt.Errorf("the backup is of %s and has no record of what was spent since: "+
		"look it up at the service, and pass it as --spent N, or 0 if nothing was spent", m.At.Format(time.RFC3339))}
}

func restoreBackup(ctx context.Context, g *globals, from string, which backup.Which, spent outlier.Credits) error {
	config, err := g.loadToRead()
	if err != nil {
		return err
	}
	place, err := backupPlace(g.world.env, from, "")
	if err != nil {
		return err
	}
	folder := stateFolder(config)
	m, err := backup.Restore(ctx, place, which, folder, stateOptions(config), func(s *state.Store, b backup.Backup) error {
		if spent == 0 {
			return nil
		}
		return s.Ledger.Adjust(spent, "spent after the backup of "+b.At.Format(time.RFC3339))
	})
	if err != nil {
		return err
	}
	warnOfRoot(g.logger(), config.Data)
	return g.out.print(m, "restored %s from the backup of %s: %d answers; %d credits booked as spent since\n"+
		"What 'outlierd forget' erased after that backup was restored too: erase it again.\n",
		report.Path(folder), m.At.Format(time.RFC3339), m.Answers, spent)
}
