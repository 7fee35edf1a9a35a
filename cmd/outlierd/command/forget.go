package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/internal/durable"
	"outlierd/outlier"
	"outlierd/schema"
	"outlierd/sinks/bucket"
	"outlierd/sinks/compare"
	"outlierd/sinks/duckdb"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/parquet"
	"outlierd/sync/forgotten"
	"outlierd/sync/job"
	"outlierd/sync/notify"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// forgetFlags are the flags of 'outlierd forget'.
type forgetFlags struct {
	ids         []forgotten.ID
	dryRun, yes bool
}

func forgetCommand(g *globals) *cobra.Command {
	var f forgetFlags
	c := &cobra.Command{
		Use: "forget", Short: "Erase what is stored of videos, channels or authors",
		Long: `Erase all that is stored of videos, channels or authors of comments, and never store it
again. A channel is erased with its videos and the comments that it wrote. An author is named
by the id of the author's channel, and only comments are erased.

The journal, all tables and pictures of the videos are rewritten without these ids, and later
answers are stripped of them as they arrive. Credits that were spent stay on record.

Not erased: backups, log files, what was exported or notified, copies that another program
has open, buckets and lakes that the job file no longer has, and your job file. A running
daemon has to be stopped first. If the command is stopped, run it again with the same ids.`,
		Example: `  outlierd forget --author UC1234567890abcdefghijkl --dry-run
  outlierd forget --channel UC1234567890abcdefghijkl --yes`,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(f.ids) == 0 {
				return usageError{errors.New("name what to forget: --video, --channel or --author")}
			}
			defer g.out.block.Erase()
			return g.withState(c.Context(), toRepair, func(ctx context.Context, p *program) error {
				return forgetIDs(ctx, g, p, f)
			})
		},
	}
	flags := c.Flags()
	f.addIDs(flags, forgotten.Video, outlier.ParseVideoID, "a video's id or address; may be repeated")
	f.addIDs(flags, forgotten.Channel, outlier.ParseChannelID, "a channel's id or address, with its videos and comments; may be repeated")
	f.addIDs(flags, forgotten.Author, outlier.ParseChannelID, "id of an author of comments; may be repeated")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count what would be erased")
	flags.BoolVar(&f.yes, "yes", false, "do not ask for confirmation")
	return c
}

// addIDs adds a flag for ids of a kind. An id that is repeated counts once.
func (f *forgetFlags) addIDs(flags *pflag.FlagSet, kind forgotten.Kind, parse func(string) (string, error), usage string) {
	flags.Func(string(kind), usage, func(text string) error {
		for given := range strings.SplitSeq(text, ",") {
			parsed, err := parse(given)
			if err != nil {
				return err
			}
			if id := (forgotten.ID{Kind: kind, ID: parsed}); !slices.Contains(f.ids, id) {
				f.ids = append(f.ids, id)
			}
		}
		return nil
	})
}

// forgottenThings is the output of forget for programs.
type forgottenThings struct {
	Videos     int      `json:"videos"`
	Channels   int      `json:"channels"`
	Authors    int      `json:"authors"`
	Answers    int64    `json:"answers"`    // of the journal with data about one of them
	Unreadable int64    `json:"unreadable"` // of these, erased as a whole, because they are not JSON
	Erased     bool     `json:"erased"`
	Left       []string `json:"left"` // other places that sinks have written and the job file no longer lists
}

// countThings counts an erasure. Because of channels there may be more videos than requested; that a channel's comments
// are erased, too, does not count as an author.
func (f *forgetFlags) countThings(e *state.Erasure, left []string, erased bool) forgottenThings {
	count := func(of []forgotten.ID, kind forgotten.Kind) (n int) {
		for _, id := range of {
			if id.Kind == kind {
				n++
			}
		}
		return n
	}
	return forgottenThings{
		Videos: count(e.IDs, forgotten.Video), Channels: count(f.ids, forgotten.Channel), Authors: count(f.ids, forgotten.Author),
		Answers: e.Answers, Unreadable: e.Unreadable, Erased: erased, Left: left,
	}
}

func (t forgottenThings) String() string {
	return fmt.Sprintf("%s, %s and %s, named by %s", term.Count(t.Videos, "video"), term.Count(t.Channels, "channel"),
		term.Count(t.Authors, "author"), term.Count(t.Answers, "stored answer"))
}

// remark returns what is left elsewhere, and what to do.
func (t forgottenThings) remark() string {
	if len(t.Left) == 0 {
		return ""
	}
	return fmt.Sprintf("No sink of the job file writes %s any more, so nothing is erased there: "+
		"remove it, or name it under `sinks` again "+
		"and repeat the command.\n", strings.Join(t.Left, " and "))
}

// forgetIDs erases ids if the user confirms it, or only counts what would be erased.
func forgetIDs(ctx context.Context, g *globals, p *program, f forgetFlags) error {
	if err := refuseUnlisted(p.Engine.Config); err != nil {
		return err
	}
	older, err := olderRows(ctx, p)
	if err != nil {
		return err
	}
	ids, err := withOlderVideos(ctx, p, older, f.ids)
	if err != nil {
		return err
	}
	erasure, err := p.Engine.Store.Forgettable(ctx, ids, journalProgress(g.out, p.Engine.Log, "looking for the ids"))
	g.out.block.Erase()
	if err != nil {
		return err
	}
	left, err := leftElsewhere(p)
	if err != nil {
		return err
	}
	if found := f.countThings(erasure, left, false); f.dryRun {
		return g.out.print(found, "would erase %s; nothing was changed\n%s", found, found.remark())
	} else if !f.yes {
		if err := askConsent(g.asker(), fmt.Sprintf("this erases %s, and cannot be undone", found), "Erase?"); err != nil {
			return err
		}
	}
	none := func(error) bool { return false }
	if err := refuseAhead(ctx, p, none); err != nil { // before anything is erased
		return err
	}
	return eraseEverywhere(ctx, g.out, p, f, older, erasure, left)
}

// refuseUnlisted returns an error if the data folder has tables that no sink of the job file writes: they
// may contain the data to erase, and if the sink returns to the file, it would publish that again.
func refuseUnlisted(config *job.Config) error {
	own := []string{filepath.Base(stateFolder(config)), filepath.FromSlash(thumbnails.Folder)}
	for _, s := range config.Sinks {
		switch s.Kind {
		case job.SinkParquet:
			own = append(own, filepath.Clean(s.Path))
		case job.SinkDuckDB:
			own = append(own, filepath.Clean(s.Path), filepath.Clean(s.Path)+duckdb.Unfinished)
		}
	}
	var found []string
	data := resolved(config.Data)
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		below := strings.TrimPrefix(path, data+string(filepath.Separator))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, fs.ErrPermission) && path != data: // such as lost+found: nothing of this user
			return fs.SkipDir
		case err != nil:
			return err
		case slices.Contains(own, below) && entry.IsDir():
			return fs.SkipDir
		case slices.Contains(own, below):
			return nil
		case entry.IsDir() && parquet.IsFolder(path):
			found = append(found, filepath.Join(report.Path(config.Data), below))
			return fs.SkipDir
		case entry.Type().IsRegular() && database.CheckFile(path, "") == nil:
			found = append(found, filepath.Join(report.Path(config.Data), below))
		}
		return nil
	})
	for _, s := range config.Sinks {
		if s.Kind != job.SinkParquet {
			continue
		}
		foreign, wrong := parquet.Foreign(sinkPath(config, s), schema.AllTables())
		for _, name := range foreign {
			found = append(found, filepath.Join(report.Path(sinkPath(config, s)), name))
		}
		err = errors.Join(err, wrong)
	}
	damaged, failed := durable.Match(stateFolder(config), "answer-*.damaged")
	if err = errors.Join(err, failed); err == nil && len(damaged) > 0 {
		return fmt.Errorf("%s cannot be read and may hold the same data: "+
			"remove it or move it out of the data folder; nothing was erased", report.Path(damaged[0]))
	}
	if err != nil || len(found) == 0 {
		return err
	}
	return fmt.Errorf("no sink of %s writes %s, which may hold the same data: name it under `sinks` again, "+
		"or remove it or move it out of the data folder; nothing was erased", report.Path(config.Path),
		strings.Join(found, " and "))
}

// leftElsewhere returns the buckets and lakes that this state has written and that no sink of the job
// file writes any more. They may have been deleted; only their owner knows.
func leftElsewhere(p *program) ([]string, error) {
	config := p.Engine.Config
	left, err := bucket.Written(bucketRecord(config))
	if err != nil {
		return nil, err
	}
	left = slices.DeleteFunc(left, func(address string) bool {
		return slices.ContainsFunc(config.Sinks, func(s job.Sink) bool { return s.Bucket == address })
	})
	lake, err := p.Engine.Store.Sinks.State(job.SinkIceberg)
	if err != nil {
		return nil, err
	}
	listed := slices.IndexFunc(config.Sinks, func(s job.Sink) bool { return s.Lake != nil })
	for _, place := range lake.Places {
		if listed < 0 || config.Sinks[listed].Lake.Place() != place {
			left = append(left, place)
		}
	}
	return left, nil
}

// eraseEverywhere erases ids, and reports it when nothing is left.
func eraseEverywhere(
	ctx context.Context, out *printer, p *program, f forgetFlags, from older, e *state.Erasure, left []string,
) error {
	began, seen := time.Now(), p.Engine.Store
	var videos []string
	from.except.Erased = store.Erased
	for _, id := range e.IDs {
		if id.Kind == forgotten.Video {
			videos = append(videos, id.ID)
		}
		if id.Kind == forgotten.Author {
			from.except.Authors = append(from.except.Authors, id.ID)
		} else {
			from.except.IDs = append(from.except.IDs, id.ID)
		}
	}
	if err := thumbnails.Forget(p.Engine.Config.Data, videos); err != nil {
		return err
	}
	if err := notify.Forget(seen, e.Texts()); err != nil { // before the file is rewritten
		return err
	}
	if err := seen.Forget(ctx, e, journalProgress(out, p.Engine.Log, "erasing from the journal")); err != nil {
		return err
	}
	if err := removeLeft(temporaryFolder(p.Engine.Config)); err != nil {
		return err
	}
	done, err := rebuildAll(ctx, out, p, from)
	if err == nil && len(done.Behind) > 0 {
		err = errors.New(strings.Join(done.Behind, "\n"))
	}
	if err != nil {
		return fmt.Errorf("rebuild the tables without what is forgotten: %w (run the command again with the same ids)", err)
	}
	if err := forgotten.Finish(seen.DB); err != nil {
		return err
	}
	gone := f.countThings(e, left, true)
	return out.print(gone, "erased %s in %s\n"+
		"Backups, exports and logs made before may still hold it.\n%s", gone, term.Duration(time.Since(began)),
		gone.remark())
}

// withOlderVideos adds videos of the channels whose answers are all pruned: only the tables still have
// them.
func withOlderVideos(ctx context.Context, p *program, from older, ids []forgotten.ID) (_ []forgotten.ID, err error) {
	var channels []string
	for _, id := range ids {
		if id.Kind == forgotten.Channel {
			channels = append(channels, id.ID)
		}
	}
	if len(channels) == 0 || from.upTo == 0 {
		return ids, nil
	}
	reader := compare.Open(temporaryFolder(p.Engine.Config))
	defer func() { err = errors.Join(err, reader.Close()) }()
	videos, err := reader.VideosOf(ctx, compare.Source{Name: report.Path(from.file), File: from.file}, channels)
	for _, video := range videos {
		if id := (forgotten.ID{Kind: forgotten.Video, ID: video}); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}
