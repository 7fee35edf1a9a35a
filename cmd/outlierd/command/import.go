package command

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/database"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

func importCommand(o *options) *cobra.Command {
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
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l.path = args[0]
			return o.importVideos(c.Context(), l)
		},
	}
	c.Flags().StringVar(&l.id, "id-column", "video_id", "the column with the ids")
	c.Flags().StringVar(&l.seen, "time-column", "first_seen_at", "the column with the times")
	return c
}

// importChunk is how many videos are imported in one transaction, and sent to a daemon at once.
const importChunk = 5000

// importMemory limits DuckDB's buffers: the CSV reader needs some, and a million rows are sorted.
const importMemory = 128 << 20

// importVideos checks the whole file before it imports anything. The earliest times are imported first, so that they count
// if a video comes twice.
func (o *options) importVideos(ctx context.Context, l *importList) (err error) {
	config, err := o.loadToRead()
	if err != nil {
		return err
	}
	return o.with(ctx, config, toChange, func(p *program) (err error) {
		if err := l.openFile(ctx, temporaryFolder(config)); err != nil {
			return fmt.Errorf("import %s: %w", l.path, err)
		}
		defer func() { err = errors.Join(err, l.db.Close()) }()
		if err := l.checkRows(ctx); err != nil {
			return fmt.Errorf("import %s: %w", l.path, err)
		}
		var done serve.Imported
		chunk := serve.ImportVideos{Origin: filepath.Base(l.path)}
		send := func() error {
			if len(chunk.Videos) == 0 {
				return nil
			}
			added, err := change(ctx, p, chunk)
			done.Add(added)
			chunk.Videos = chunk.Videos[:0]
			return err
		}
		now := time.Now().UTC()
		err = l.eachRow(ctx, "3 NULLS LAST, n", func(_ int64, video string, seen time.Time, _ string) error {
			id, err := outlier.ParseVideoID(video)
			if err != nil {
				return err
			}
			if seen.IsZero() {
				seen = now
			}
			if chunk.Videos = append(chunk.Videos, runs.Imported{Video: id, FirstSeen: seen}); len(chunk.Videos) == importChunk {
				return send()
			}
			return nil
		})
		if err == nil {
			err = send()
		}
		if err != nil {
			return fmt.Errorf("import %s: after %d videos: %w; repeat the command to import the others", l.path, done.Imported, err)
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
			said += fmt.Sprintf(", %d were erased ('outlierd forget') and stay so", done.Forgotten)
		}
		return o.done(done, "%s\n", said)
	})
}

// importList is the file of an import.
type importList struct {
	path     string
	id, seen string // names of the columns
	db       *database.DB
	from     string // SQL of the rows: n, video, seen in microseconds, and as text
}

// openFile prepares reading the file.
func (l *importList) openFile(ctx context.Context, temp string) (err error) {
	info, err := os.Stat(l.path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a file")
	case info.Size() == 0:
		return errors.New("it is empty")
	}
	read, path := "", database.Text(globless(l.path))
	switch strings.ToLower(filepath.Ext(l.path)) {
	case ".parquet":
		read = "read_parquet(" + path + ")"
	case ".csv", ".tsv", ".txt":
		read = "read_csv(" + path + ", all_varchar = true, header = true, buffer_size = 4000000, max_line_size = 1000000)"
	default:
		return errors.New("the name must end in .csv or .parquet")
	}
	if l.db, err = database.Open(ctx, database.Options{Temp: temp, Memory: importMemory}); err != nil {
		return err
	}
	columns, err := l.db.Query(ctx, "DESCRIBE SELECT * FROM "+read)
	if err != nil {
		return errors.Join(fmt.Errorf("it cannot be read: %s", reason(err)), l.db.Close())
	}
	var names []string
	for _, c := range columns {
		names = append(names, c[0].(string))
	}
	if !slices.Contains(names, l.id) {
		return errors.Join(fmt.Errorf("it has no column %s, but %s: name the column with the ids by --id-column",
			l.id, strings.Join(names, ", ")), l.db.Close())
	}
	seen := "NULL"
	if slices.Contains(names, l.seen) {
		seen = database.Name(l.seen) + "::VARCHAR"
	}
	l.from = fmt.Sprintf("FROM (SELECT row_number() OVER () AS n, trim(%s::VARCHAR) AS video, nullif(trim(%s), '') AS text FROM %s)",
		database.Name(l.id), seen, read)
	return nil
}

// reason is DuckDB's error without its advice, which is about its own settings.
func reason(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return term.Plain(first)
}

// globless escapes what DuckDB takes for a pattern in a path.
func globless(path string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(path)
}

// eachRow calls each for every row, in an order.
func (l *importList) eachRow(ctx context.Context, order string, each func(n int64, video string, seen time.Time, text string) error) (err error) {
	rows, err := l.db.Conn().(driver.QueryerContext).QueryContext(ctx,
		"SELECT n, coalesce(video, ''), epoch_us(TRY_CAST(text AS TIMESTAMPTZ)), coalesce(text, '') "+l.from+" ORDER BY "+order, nil)
	if err != nil {
		return errors.New(reason(err))
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for row := make([]driver.Value, 4); ; {
		if err := rows.Next(row); err == io.EOF {
			return nil
		} else if err != nil {
			return errors.New(reason(err))
		}
		var seen time.Time
		if us, ok := row[2].(int64); ok {
			seen = time.UnixMicro(us).UTC()
		}
		if err := each(row[0].(int64), row[1].(string), seen, row[3].(string)); err != nil {
			return err
		}
	}
}

// shownMistakes is how many mistakes of a file are listed.
const shownMistakes = 5

// checkRows returns an error that lists what cannot be imported.
func (l *importList) checkRows(ctx context.Context) error {
	var mistakes []string
	found, rows, now := 0, 0, time.Now()
	err := l.eachRow(ctx, "n", func(n int64, video string, seen time.Time, text string) error {
		rows++
		_, err := outlier.ParseVideoID(video)
		switch {
		case err != nil:
		case text != "" && seen.IsZero():
			err = fmt.Errorf("%s %q is neither a date nor a time, such as 2026-03-01 or 2026-03-01T12:00:00Z", l.seen, term.Clip(text, 40))
		case seen.After(now):
			err = fmt.Errorf("%s %s is in the future", l.seen, text)
		default:
			return nil
		}
		if found++; found <= shownMistakes {
			mistakes = append(mistakes, fmt.Sprintf("row %d: %v", n, err))
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case rows == 0:
		return errors.New("it has no rows")
	case found == 0:
		return nil
	case found > shownMistakes:
		mistakes = append(mistakes, fmt.Sprintf("and %d other rows", found-shownMistakes))
	}
	return fmt.Errorf("nothing was imported:\n  %s", strings.Join(mistakes, "\n  "))
}
