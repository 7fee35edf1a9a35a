package sinks_test

import (
	"path/filepath"
	"slices"
	"testing"

	"outlierd/schema"
	"outlierd/sinks/compare"
	"outlierd/sinks/duckdb/database"
)

// startDuckDB starts DuckDB for the rest of a test.
func startDuckDB(t *testing.T) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// parquetOf writes a Parquet file of a table for each query.
func parquetOf(t *testing.T, db *database.DB, of *schema.Table, queries ...string) compare.Source {
	t.Helper()
	var files []string
	dir := t.TempDir()
	for i, q := range queries {
		file := filepath.Join(dir, string(rune('a'+i))+".parquet")
		if _, err := db.Exec(t.Context(), "COPY ("+q+") TO "+database.Text(file)); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return compare.Source{Name: dir, Parquet: func(table *schema.Table) []string {
		if table.Name == of.Name {
			return files
		}
		return nil
	}}
}

// TestStaleComments compares comments with their history.
func TestStaleComments(t *testing.T) {
	db, r := startDuckDB(t), compare.Open(t.TempDir())
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	const columns = " AS t(video_id, comment_key, _response_id)"
	// The second answer about a has another comment, and that about b has none. There is one answer
	// about c.
	const history = "FROM (VALUES ('a', 'x', 5), ('a', 'x', 7), ('a', 'y', 7), ('b', 'x', 6), ('c', 'z', 9))" + columns
	const counts = "FROM (VALUES ('a', 7), ('b', 8), ('c', 9), ('old', 2)) AS t(video_id, _response_id)"
	for name, c := range map[string]struct {
		comments string
		stale    int64
	}{
		"as they should be":                  {"('a', 'x', 7), ('a', 'y', 7), ('c', 'z', 9)", 0},
		"older than the history":             {"('a', 'x', 7), ('a', 'y', 7), ('c', 'z', 9), ('old', 'x', 2)", 0},
		"a comment is missing":               {"('a', 'x', 7), ('c', 'z', 9)", 1},
		"a comment is surplus":               {"('a', 'x', 7), ('a', 'y', 7), ('a', 'n', 7), ('c', 'z', 9)", 1},
		"those of an older answer":           {"('a', 'x', 5), ('c', 'z', 9)", 1},
		"an answer without a list left them": {"('a', 'x', 7), ('a', 'y', 7), ('b', 'x', 6), ('c', 'z', 9)", 0},
		"all of a video are missing":         {"('a', 'x', 7), ('a', 'y', 7)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			comments := parquetOf(t, db, schema.Comments, "FROM (VALUES "+c.comments+")"+columns)
			kept, last := parquetOf(t, db, schema.CommentsHistory, history), parquetOf(t, db, schema.CommentCounts, counts)
			s := compare.Source{Name: "comments", Parquet: func(table *schema.Table) []string {
				return slices.Concat(comments.Parquet(table), kept.Parquet(table), last.Parquet(table))
			}}
			if n, err := r.StaleComments(t.Context(), s); err != nil || n != c.stale {
				t.Errorf("%d videos are stale (%v), want %d", n, err, c.stale)
			}
		})
	}
}
