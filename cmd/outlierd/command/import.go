package command

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/database"
	"outlierd/sync/marks"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

func importCommand(g *globals) *cobra.Command {
	l := &importList{}
	c := &cobra.Command{
		Use: "import FILE", Short: "Import videos that were seen before, so that none is new",
		Long: `Import the ids of videos that another tool has collected, from a CSV or Parquet file. None of
them counts as new when a search finds it: not in runs, not in reports and alerts, not for
stop_when. Its first_seen_at is then that of the file.

The file has a column video_id, with ids or addresses, and may have first_seen_at, a date or
a time in UTC; without one a video counts as seen now. Of a video that comes twice, the
earliest time counts. A video that was imported before stays as it is, so the command may be
repeated. The table ops.imports has what was imported, and 'outlierd why VIDEO' says it.`,
		Example: `  outlierd import seen.csv
  outlierd import hits.parquet --id-column videoId --time-column collected`,
		RunE: g.inSession(toChange, func(ctx context.Context, p *program, args []string) error {
			l.path = args[0]
			return importVideos(ctx, g.out, p, l)
		}),
	}
	c.Flags().StringVar(&l.id, "id-column", "video_id", "the column with the ids")
	c.Flags().StringVar(&l.seen, "time-column", "first_seen_at", "the column with the times")
	return c
}

// importChunk is how many videos are imported in one transaction, and sent to a daemon at once.
const importChunk = 5000

// importMemory limits DuckDB's buffers: the CSV reader needs some, and a million rows are sorted.
const importMemory = 128 << 20

// importVideos checks the whole file before it imports anything. It imports videos sorted by id, because that writes
// fewer pages of the state.
func importVideos(ctx context.Context, out *printer, p *program, l *importList) error {
	temp, err := newTemporary(p.Engine.Config) // DuckDB would remove files of a daemon's in the folder that it has
	if err != nil {
		return err
	}
	seen, err := l.readVideos(ctx, temp.path)
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("import %s: %w", l.path, err)
	}
	var done serve.Imported
	ids := slices.Sorted(maps.Keys(seen))
	for some := range slices.Chunk(ids, importChunk) {
		chunk := serve.ImportVideos{Origin: filepath.Base(l.path)}
		for _, id := range some {
			chunk.Videos = append(chunk.Videos, runs.Imported{Video: id, FirstSeen: time.UnixMicro(seen[id]).UTC()})
		}
		added, err := change(ctx, p, chunk)
		if err != nil {
			return fmt.Errorf("import %s: after %d videos: %w; repeat the command to import the others", l.path, done.Imported, err)
		}
		done.Add(added)
	}
	if p.daemon == nil {
		if err := p.Engine.Publish(ctx); err != nil {
			return err
		}
	}
	said := term.Count(done.Imported, "video") + " imported"
	if done.Known > 0 {
		said += fmt.Sprintf(", %d imported before", done.Known)
	}
	if done.Forgotten > 0 {
		said += fmt.Sprintf(", %d left out, as 'outlierd forget' erased them", done.Forgotten)
	}
	return out.print(done, "%s\n", said)
}

// importList is the file of an import.
type importList struct {
	path     string
	id, seen string // names of the columns
}

// selectRows returns SQL for the rows of the file: the video, its time in microseconds, and as text if it is not a
// time.
func (l *importList) selectRows(ctx context.Context, db *database.DB) (string, error) {
	info, err := os.Stat(l.path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("it is not a file")
	case info.Size() == 0:
		return "", errors.New("it is empty")
	}
	read, path := "", database.Text(globText(l.path))
	switch strings.ToLower(filepath.Ext(l.path)) {
	case ".parquet":
		read = "read_parquet(" + path + ")"
	case ".csv", ".tsv", ".txt":
		read = "read_csv(" + path + ", all_varchar = true, header = true, buffer_size = 4000000, max_line_size = 1000000)"
	default:
		return "", errors.New("the name must end in .csv or .parquet")
	}
	columns, err := db.Query(ctx, "DESCRIBE SELECT * FROM "+read)
	if err != nil {
		return "", fmt.Errorf("it cannot be read: %s", shortenProblem(err))
	}
	var names []string
	for _, c := range columns {
		names = append(names, c[0].(string))
	}
	switch {
	case slices.Contains(names, l.id):
	case len(names) == 1 && strings.Contains(names[0], l.id):
		return "", fmt.Errorf("its columns cannot be told apart: its first line is %s, and other lines must have as many columns", term.Clip(names[0], 200))
	default:
		return "", fmt.Errorf("it has no column %s, but %s: name the column with the ids by --id-column",
			l.id, term.Clip(strings.Join(names, ", "), 300))
	}
	written := "NULL"
	if slices.Contains(names, l.seen) {
		written = "nullif(trim(" + database.Name(l.seen) + "::VARCHAR), '')"
	}
	return fmt.Sprintf(`SELECT video, seen, CASE WHEN seen IS NULL THEN written END
		FROM (SELECT coalesce(%[1]s::VARCHAR, '') AS video, %[2]s AS written, epoch_us(TRY_CAST(%[2]s AS TIMESTAMPTZ)) AS seen FROM %[3]s)`,
		database.Name(l.id), written, read), nil
}

// shortenProblem is DuckDB's error without its advice, which is about its own settings.
func shortenProblem(err error) string {
	problem, _, _ := strings.Cut(err.Error(), "\n\n")
	return term.Clip(strings.ReplaceAll(problem, "\n", ", "), 300)
}

// shownMistakes is how many mistakes of a file are listed.
const shownMistakes = 5

// readVideos returns the videos of the file, each with its earliest time in microseconds, or an error that lists what
// cannot be imported.
func (l *importList) readVideos(ctx context.Context, temp string) (videos map[string]int64, err error) {
	db, err := database.Open(ctx, database.Options{Temp: temp, Memory: importMemory})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	sql, err := l.selectRows(ctx, db)
	if err != nil {
		return nil, err
	}
	rows, err := db.Conn().(driver.QueryerContext).QueryContext(ctx, sql, nil)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read: %s", shortenProblem(err))
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	videos = map[string]int64{}
	var mistakes []string
	row, wrong, now := make([]driver.Value, 3), 0, time.Now()
	for n := 1; ; n++ {
		if err := rows.Next(row); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("it cannot be read: %s", shortenProblem(err))
		}
		id, at, err := l.readRow(row, now)
		if err != nil {
			if wrong++; wrong <= shownMistakes {
				mistakes = append(mistakes, fmt.Sprintf("row %d: %v", n, err))
			}
			continue
		}
		if earliest, found := videos[id]; !found || at < earliest {
			videos[strings.Clone(id)] = at
		}
	}
	switch {
	case wrong > shownMistakes:
		mistakes = append(mistakes, fmt.Sprintf("and %s", term.Count(wrong-shownMistakes, "other row")))
		fallthrough
	case wrong > 0:
		return nil, fmt.Errorf("nothing was imported:\n  %s", strings.Join(mistakes, "\n  "))
	case len(videos) == 0:
		return nil, errors.New("it has no rows")
	}
	return videos, nil
}

// earliestImport refuses what is no time of a video, such as 0001-01-01.
var earliestImport = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// readRow returns the video of a row, and when it was first seen: now, if the file does not say.
func (l *importList) readRow(row []driver.Value, now time.Time) (id string, at int64, err error) {
	if id, err = outlier.ParseVideoID(row[0].(string)); err != nil {
		return "", 0, err
	}
	if text, is := row[2].(string); is {
		return "", 0, fmt.Errorf("%s %q is neither a date nor a time, such as 2026-03-01 or 2026-03-01T12:00:00Z", l.seen, term.Clip(text, 40))
	}
	at, is := row[1].(int64)
	day := time.UnixMicro(at).UTC().Format(time.DateOnly)
	switch {
	case !is:
		return id, now.UnixMicro(), nil
	case at < earliestImport:
		return "", 0, fmt.Errorf("%s %s is before 1990", l.seen, day)
	case at > now.UnixMicro():
		return "", 0, fmt.Errorf("%s %s is in the future", l.seen, day)
	}
	return id, at, nil
}

func markCommand(g *globals) *cobra.Command {
	var star, unstar, hide, unhide bool
	var note string
	var edit marks.Edit
	c := &cobra.Command{
		Use: "mark [VIDEO…]", Short: "Star, hide, tag or annotate videos; list marks",
		Long: `Star, hide or tag videos, or write a note about them, as on the page of 'outlierd up', and
list the marks of these videos. Without a VIDEO, list all marks.

A VIDEO is an id or an address. Marks are in the view "marks" of the published tables, so
SQL, exports and jobs can use them: "select video_id from marks where starred".`,
		Example: `  outlierd mark dQw4w9WgXcQ --star --tag hook --note "opens with the result"
  outlierd mark
  outlierd sql "select title, note from outliers join marks using (video_id) where starred"`,
		RunE: func(c *cobra.Command, videos []string) error {
			for _, given := range videos {
				id, err := outlier.ParseVideoID(given)
				if err != nil {
					return usageError{err}
				}
				if !slices.Contains(edit.Videos, id) {
					edit.Videos = append(edit.Videos, id)
				}
			}
			changed := c.Flags().Changed
			if star || unstar {
				edit.Star = &star
			}
			if hide || unhide {
				edit.Hide = &hide
			}
			if changed("note") {
				edit.Note = &note
			}
			isEdit := edit.Star != nil || edit.Hide != nil || edit.Note != nil || len(edit.Tag)+len(edit.Untag) > 0
			if isEdit && len(videos) == 0 {
				return usageError{errors.New("name the videos to mark")}
			}
			return g.withState(c.Context(), toChange, func(ctx context.Context, p *program) error {
				if isEdit {
					_, err := change(ctx, p, serve.EditMarks{Edit: edit})
					if err == nil && p.daemon == nil { // a sink that does not work gets them when it does
						err = p.Engine.Publish(ctx)
					}
					if err != nil {
						return err
					}
				}
				return listMarks(g.out, p, edit.Videos)
			})
		},
	}
	flags := c.Flags()
	flags.BoolVar(&star, "star", false, "star the videos")
	flags.BoolVar(&unstar, "unstar", false, "remove the stars")
	flags.BoolVar(&hide, "hide", false, "leave the videos out of the lists of the page")
	flags.BoolVar(&unhide, "unhide", false, "show hidden videos again")
	flags.StringSliceVar(&edit.Tag, "tag", nil, "add a tag; may be repeated")
	flags.StringSliceVar(&edit.Untag, "untag", nil, "remove a tag; may be repeated")
	flags.StringVar(&note, "note", "", `replace the note; "" removes it`)
	exclude(c, "star", "unstar")
	exclude(c, "hide", "unhide")
	return c
}

// listMarks prints the marks of videos, or all marks.
func listMarks(out *printer, p *program, of []string) error {
	all, err := marks.List(p.Engine.Store.DB)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m marks.Mark) bool { return len(of) > 0 && !slices.Contains(of, m.Video) })
	return printList(out, all, []string{"video_id", "starred", "hidden", "tags", "note", "marked_at"}, func(m marks.Mark) []any {
		return []any{m.Video, m.Starred, m.Hidden, strings.Join(m.Tags, ", "), m.Note, when(m.Marked)}
	})
}
