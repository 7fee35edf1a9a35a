package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
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
	"outlierd/sync/runs"
	"outlierd/sync/serve"
)

var importedVideos = documentOf[serve.Imported]("import")

func importCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "import FILE", Short: "Import videos that were seen before, so that none is new",
		Long: `Import the ids of videos that another tool has collected, from a CSV file. None of them counts
as new when a search finds it: not in runs, not in reports and alerts, not for stop_when. Its
first_seen_at is then that of the file.

The file has a column video_id, with ids or addresses, and may have first_seen_at, a date or
a time in UTC; without one a video counts as seen now. Of a video that comes twice, the
earliest time counts. A video that was imported before stays as it is, so the command may be
repeated. The table ops.imports has what was imported, and 'outlierd why VIDEO' says it.

DuckDB makes such a file of Parquet, JSON, or other columns.`,
		Example: `  outlierd import seen.csv
  duckdb -csv -c "select videoId as video_id, day as first_seen_at from 'hits.parquet'" > seen.csv`,
		Args: cobra.ExactArgs(1),
		RunE: g.inSession(toChange, func(ctx context.Context, p *program, args []string) error {
			return importVideos(ctx, g.out, p, args[0])
		}),
	}
}

// importChunk is how many videos are imported in one transaction, and sent to a daemon at once.
const importChunk = 5000

// importVideos checks the whole file before it imports anything. It imports videos sorted by id, because that writes
// fewer pages of the state.
func importVideos(ctx context.Context, out *printer, p *program, path string) error {
	seen, err := readVideos(path, time.Now())
	if err != nil {
		return fmt.Errorf("import %s: %w", path, err)
	}
	var done serve.Imported
	ids := slices.Sorted(maps.Keys(seen))
	for some := range slices.Chunk(ids, importChunk) {
		chunk := serve.ImportVideos{Origin: filepath.Base(path)}
		for _, id := range some {
			chunk.Videos = append(chunk.Videos, runs.Imported{Video: id, FirstSeen: seen[id]})
		}
		added, err := change(ctx, p, chunk)
		if err != nil {
			return fmt.Errorf("import %s: after %d videos: %w; repeat the command to import the others", path, done.Imported, err)
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
	return importedVideos.print(out, done, "%s\n", said)
}

// shownMistakes is how many mistakes of a file are listed.
const shownMistakes = 5

// readVideos returns the videos of a file, each with its earliest time, or an error that lists what cannot be imported.
func readVideos(path string, now time.Time) (map[string]time.Time, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a file")
	}
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rows, id, seen, err := readHeader(file)
	if err != nil {
		return nil, err
	}
	videos := map[string]time.Time{}
	var mistakes []string
	for {
		row, err := rows.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		at := now
		video, err := outlier.ParseVideoID(row[id])
		if err == nil && seen >= 0 && strings.TrimSpace(row[seen]) != "" {
			at, err = parseSeen(strings.TrimSpace(row[seen]), now)
		}
		if err != nil {
			line, _ := rows.FieldPos(0)
			mistakes = append(mistakes, fmt.Sprintf("line %d: %v", line, err))
		} else if earliest, found := videos[video]; !found || at.Before(earliest) {
			videos[strings.Clone(video)] = at.UTC().Truncate(time.Microsecond)
		}
	}
	if n := len(mistakes) - shownMistakes; n > 0 {
		mistakes = append(mistakes[:shownMistakes], "and "+term.Count(n, "other line"))
	}
	switch {
	case len(mistakes) > 0:
		return nil, fmt.Errorf("nothing was imported:\n  %s", strings.Join(mistakes, "\n  "))
	case len(videos) == 0:
		return nil, errors.New("it has no rows")
	}
	return videos, nil
}

// readHeader returns a reader of the rows after the header, and the columns of the id and of the time; -1 without times.
func readHeader(file io.Reader) (rows *csv.Reader, id, seen int, err error) {
	text := bufio.NewReader(file)
	first, _ := text.Peek(4096) // a shorter file is read anyway
	if bytes.HasPrefix(first, []byte("\ufeff")) {
		_, _ = text.Discard(len("\ufeff"))
	}
	rows = csv.NewReader(text)
	rows.ReuseRecord = true
	line, _, _ := strings.Cut(string(first), "\n")
	for _, separator := range ";\t" { // in place of the comma
		if strings.Count(line, string(separator)) > strings.Count(line, string(rows.Comma)) {
			rows.Comma = separator
		}
	}
	names, err := rows.Read()
	switch {
	case err == io.EOF:
		err = errors.New("it is empty")
	case err == nil && !slices.Contains(names, "video_id"):
		err = fmt.Errorf("it has no column video_id, but %s", term.Plain(term.Clip(strings.Join(names, ", "), 300)))
	}
	return rows, slices.Index(names, "video_id"), slices.Index(names, "first_seen_at"), err
}

// earliestImport refuses what is no time of a video, such as 0001-01-01.
var earliestImport = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)

// parseSeen parses when a video was first seen.
func parseSeen(text string, now time.Time) (at time.Time, err error) {
	for _, layout := range []string{time.DateOnly, time.DateTime + "Z07:00", time.DateTime + "Z07", time.DateTime} {
		if at, err = time.Parse(layout, strings.Replace(text, "T", " ", 1)); err == nil {
			break
		}
	}
	day := at.UTC().Format(time.DateOnly)
	switch {
	case err != nil:
		return at, fmt.Errorf("first_seen_at %q is neither a date nor a time, such as 2026-03-01 or 2026-03-01T12:00:00Z", term.Clip(text, 40))
	case at.Before(earliestImport):
		return at, fmt.Errorf("first_seen_at %s is before 1990", day)
	case at.After(now):
		return at, fmt.Errorf("first_seen_at %s is in the future", day)
	}
	return at, nil
}
