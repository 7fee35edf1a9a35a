package query

import (
	"fmt"
	"strings"
	"time"

	"outlierd/sinks/duckdb/database"
)

// Outliers says which outliers are wanted, and in which order. Texts that are "" and numbers that are 0
// want nothing in particular.
type Outliers struct {
	Query, Job, Channel, Kind, Language string // a channel by its id, its handle or a part of its title

	Ratio float64   // the least views, as a multiple of the channel's average
	Since time.Time // published then or later
	Order string    // a column, of which the greatest values come first

	Skip, Most int // so many rows are left out, and so many come
}

// SQL asks for the number of all outliers that are wanted, and beside it the columns video_id, title, link,
// channel_id, channel, kind, language, view_count, average_views_ratio, z_score, published_at and first_seen_at of each
// row. Without any row there is one, in which all but the number is NULL. Where two rows are equal
// their ids decide, so that none comes twice after another Skip.
func (o Outliers) SQL() string {
	where := []string{"true"}
	want := func(condition, value string) {
		if value != "" {
			where = append(where, strings.ReplaceAll(condition, "?", database.Text(value)))
		}
	}
	want("t.video_id IN (SELECT video_id FROM outliers_history WHERE list_contains(queries, ?))", o.Query)
	want("t.video_id IN (SELECT video_id FROM outliers_history WHERE _job = ?)", o.Job)
	want("(t.channel_id = ? OR ltrim(t.channel_handle, '@') = ltrim(?, '@') OR contains(lower(t.channel_title), lower(?)))", o.Channel)
	want("t.kind = ?", o.Kind)
	want("t.language = lower(?)", o.Language)
	if o.Ratio > 0 {
		where = append(where, fmt.Sprintf("t.average_views_ratio >= %g::DOUBLE", o.Ratio))
	}
	if !o.Since.IsZero() {
		where = append(where, "t.published_at >= "+database.Text(o.Since.UTC().Format(time.RFC3339))+"::TIMESTAMPTZ")
	}
	// What is dear to find is found once, and what is cheap is counted and sorted where it lies. The
	// wide rows are fetched for the page alone.
	once := "NOT MATERIALIZED"
	if o.Query != "" || o.Job != "" || o.Channel != "" {
		once = "MATERIALIZED"
	}
	return fmt.Sprintf(`WITH wanted AS %[6]s (SELECT t.rowid AS place, t.%[3]s AS rank, t.video_id FROM outliers AS t WHERE %[2]s)
		SELECT n.total, t.video_id, t.title, %[1]s, t.channel_id, coalesce(t.channel_title, t.channel_handle) AS channel, t.kind, t.language,
			t.view_count, t.average_views_ratio, t.z_score, t.published_at, t.first_seen_at
		FROM (SELECT count(*) AS total FROM wanted) AS n LEFT JOIN (FROM outliers WHERE rowid IN (
			SELECT place FROM wanted ORDER BY rank DESC NULLS LAST, video_id LIMIT %[4]d OFFSET %[5]d)) AS t ON true
		ORDER BY t.%[3]s DESC NULLS LAST, t.video_id`,
		VideoLink, strings.Join(where, " AND "), database.Name(o.Order), o.Most, o.Skip, once)
}
