package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/sync/job"
	"outlierd/sync/marks"
)

// maxShared is the maximum number of videos in one file, which has about 10 KB for each.
const maxShared = 500

// sharing is one file for people who do not have the page.
type sharing struct {
	export
	sql, title string
	top        int
}

func shareCommand(g *globals) *cobra.Command {
	var s sharing
	c := &cobra.Command{
		Use:   "share [VIEW]",
		Short: "Write videos with pictures to one HTML file",
		Long: `Write the videos of a view to one HTML file, with their pictures and numbers, for a mail or a
drive. The file loads nothing, and has nothing but these videos: no notes, tags, jobs or queries.

VIEW is new_this_week, everything, starred, the name of a view that was saved on the page, or
the address of a list on the page, such as "/found?topic=ramen". With --sql the query selects
the videos by its column video_id, in its order.

Pictures come from the cache of 'outlierd up', or from the image host as with daemon.thumbnails:
proxy. With daemon.thumbnails: off the file has no pictures.`,
		Example: `  outlierd share new_this_week --to week48.html
  outlierd share --sql "select video_id from outliers order by z_score desc limit 20" --to best.html`,
		RunE: func(c *cobra.Command, args []string) (err error) {
			switch {
			case (len(args) == 1) == (s.sql != ""):
				return usageError{errors.New("name either a view or --sql")}
			case s.to == "":
				return usageError{errors.New("--to is missing: name the HTML file to write")}
			case s.top < 1 || s.top > maxShared:
				return usageError{fmt.Errorf("--top must be from 1 to %d, got %d", maxShared, s.top)}
			}
			if s.config, err = g.loadToRead(); err != nil {
				return err
			}
			if err := s.place(); err != nil {
				return err
			}
			return writeShare(c.Context(), g, s, strings.Join(args, ""))
		},
	}
	flags := c.Flags()
	flags.StringVar(&s.to, "to", "", "the HTML file to write")
	flags.StringVar(&s.sql, "sql", "", "a query whose column video_id selects the videos")
	flags.StringVar(&s.title, "title", "", "the headline (default: the name of the view)")
	flags.IntVar(&s.top, "top", page.PerPage, "the first N videos only")
	flags.BoolVar(&s.force, "force", false, "replace an existing file")
	return c
}

func writeShare(ctx context.Context, g *globals, s sharing, view string) error {
	path, at, err := publishedFile(ctx, g, s.config)
	if err != nil {
		return err
	}
	tables := openTables(g, s.config)
	shared := page.Shared{Title: s.title, At: at.In(s.config.Timezone)}
	total, err := selectShared(ctx, s, view, tables, &shared)
	if err != nil {
		return explainQuery(path, err)
	}
	if len(shared.Cards) == 0 {
		return errors.New("nothing is selected, so no file was written")
	}
	if shared.Pictures, err = sharedPictures(ctx, g.logger(), g.world.err, s.config, tables, shared.Cards); err != nil {
		return err
	}
	bytes, err := s.create(func(file io.Writer, _ string) error { return shared.WriteHTML(file) })
	if err != nil {
		return err
	}
	of := ""
	if total > int64(len(shared.Cards)) {
		of = fmt.Sprintf(" of %d", total)
	}
	return g.out.print(fileShared{s.to, len(shared.Cards), total, len(shared.Pictures), bytes},
		"wrote %s (%s%s, %s, %s)\n", report.Path(s.to), term.Count(len(shared.Cards), "video"), of, term.Count(len(shared.Pictures), "picture"), report.Size(bytes))
}

// fileShared is the output of share for programs.
type fileShared struct {
	File     string `json:"file"`
	Videos   int    `json:"videos"`
	Of       int64  `json:"of"` // without --top
	Pictures int    `json:"pictures"`
	Bytes    int64  `json:"bytes"`
}

// selectShared finds the videos, and returns how many there are without --top.
func selectShared(ctx context.Context, s sharing, view string, tables *page.Tables, into *page.Shared) (int64, error) {
	if s.sql != "" {
		ids, err := seeds(s.config)(ctx, s.sql, "video_id")
		if err != nil {
			return 0, err
		}
		if into.Title == "" {
			into.Title = "Outliers"
		}
		into.Cards, err = tables.Picked(ctx, ids[:min(s.top, len(ids))])
		return int64(len(ids)), err
	}
	name, address, err := addressOf(view, tables)
	if err != nil {
		return 0, err
	}
	f, err := page.FilterOf(address)
	if err != nil {
		return 0, usageError{fmt.Errorf("%s: %w", view, err)}
	}
	f.Offset, f.Limit = 0, s.top
	found, err := tables.Found(ctx, f)
	if err != nil {
		return 0, err
	}
	if into.Title == "" {
		into.Title = name
	}
	into.Cards = found.Cards
	return found.Total, nil
}

// addressOf returns the name of a view and its address on the page.
func addressOf(view string, tables *page.Tables) (name, address string, err error) {
	if strings.HasPrefix(view, "/") {
		return "Outliers", view, nil
	}
	marked, err := tables.Marked()
	if err != nil {
		return "", "", err
	}
	views := append([]marks.View{{Name: "new_this_week", Address: "/"}, {Name: "everything", Address: "/found"},
		{Name: "starred", Address: "/found?show=starred"}}, marked.Views...)
	at := slices.IndexFunc(views, func(v marks.View) bool { return strings.EqualFold(v.Name, view) })
	if at < 0 {
		names := make([]string, len(views))
		for i, v := range views {
			names[i] = v.Name
		}
		return "", "", usageError{fmt.Errorf("there is no view %q; want %s", view, term.OneOf(names))}
	}
	if at < 3 {
		return []string{"New this week", "Outliers", "Starred"}[at], views[at].Address, nil
	}
	return views[at].Name, views[at].Address, nil
}

// sharedPictures returns the pictures of videos. Those that cannot be fetched are missing, which is said.
func sharedPictures(
	ctx context.Context, log *slog.Logger, w io.Writer, config *job.Config, tables *page.Tables, cards []page.Card,
) (map[string]thumbnails.Picture, error) {
	here := *config
	if here.Daemon.Thumbnails == job.ThumbnailsDirect { // there is no browser to fetch them
		here.Daemon.Thumbnails = job.ThumbnailsProxy
	}
	from := newThumbnails(&here, tables, log)
	if from == nil {
		return nil, nil
	}
	var mu sync.Mutex
	pictures := map[string]thumbnails.Picture{}
	var work errgroup.Group
	work.SetLimit(8) // so that none waits too long for its turn
	for i := range cards {
		work.Go(func() error {
			picture, err := from.Get(ctx, cards[i].ID, 320)
			if errors.Is(err, thumbnails.ErrNone) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			pictures[cards[i].ID] = *picture
			return nil
		})
	}
	if err := work.Wait(); err != nil && ctx.Err() == nil {
		fmt.Fprintf(w, "some pictures are missing: %s\n", term.Plain(err.Error()))
	}
	return pictures, context.Cause(ctx)
}
