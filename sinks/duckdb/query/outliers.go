package query

import (
	"fmt"
	"strings"
	"time"

	"outlierd/sinks/duckdb/database"
)

// Outliers are filters, an order and a page of outliers. Filters with the zero value are not applied.
type Outliers struct {
	Query, Job, Channel, Kind, Language string // Query is a part of one, Channel an id, a handle or a part of a title

	Ratio float64   // minimum of views, as a multiple of the channel's average
	Since time.Time // earliest time of publication
	Order string    // column to sort by, descending

	Offset, Limit int // offset and limit, rows
}

// SQL returns a query for a page of outliers. Its columns are the total number of matching outliers,
// video_id, title, link, channel_id, channel, kind, language, view_count, average_views_ratio, z_score,
// published_at and first_seen_at. If the page is empty, the result has one row, in which all columns
// but the total are NULL. Equal rows are sorted by id, so that pages do not overlap.
func (o Outliers) SQL() string {
	where := []string{"true"}
	want := func(condition, value string) {
		if value != "" {
			where = append(where, strings.ReplaceAll(condition, "?", database.Text(value)))
		}
	}
	want("t.video_id IN (SELECT video_id FROM outliers_history "+
		"WHERE contains(lower(array_to_string(queries, chr(10))), lower(?)))", o.Query)
	want("t.video_id IN (SELECT video_id FROM outliers_history WHERE _job = ?)", o.Job)
	want("(t.channel_id = ? OR ltrim(t.channel_handle, '@') = ltrim(?, '@') OR "+
		"contains(lower(t.channel_title), lower(?)))", o.Channel)
	want("t.kind = ?", o.Kind)
	want("t.language = lower(?)", o.Language)
	if o.Ratio > 0 {
		where = append(where, fmt.Sprintf("t.average_views_ratio >= %g::DOUBLE", o.Ratio))
	}
	if !o.Since.IsZero() {
		where = append(where, "t.published_at >= "+database.Text(o.Since.UTC().Format(time.RFC3339))+"::TIMESTAMPTZ")
	}
	// The query needs the matching rows twice, for the total and for the page. If they are expensive to
	// find, it materializes them. All other columns are read for the page only.
	once := "NOT MATERIALIZED"
	if o.Query != "" || o.Job != "" || o.Channel != "" {
		once = "MATERIALIZED"
	}
	return fmt.Sprintf(`WITH wanted AS %[6]s (SELECT t.rowid AS place, t.%[3]s AS rank, t.video_id
		FROM outliers AS t WHERE %[2]s)
		SELECT n.total, t.video_id, t.title, %[1]s, t.channel_id,
			coalesce(t.channel_title, t.channel_handle) AS channel, t.kind, t.language,
			t.view_count, t.average_views_ratio, t.z_score, t.published_at, t.first_seen_at
		FROM (SELECT count(*) AS total FROM wanted) AS n LEFT JOIN (FROM outliers WHERE rowid IN (
			SELECT place FROM wanted ORDER BY rank DESC NULLS LAST, video_id LIMIT %[4]d OFFSET %[5]d)) AS t ON true
		ORDER BY t.%[3]s DESC NULLS LAST, t.video_id`,
		VideoLink, strings.Join(where, " AND "), database.Name(o.Order), o.Limit, o.Offset, once)
}
