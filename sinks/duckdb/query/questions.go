package query

import (
	"strings"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// Named is SQL with a name.
type Named struct{ Name, SQL string }

// Questions are sample queries for common questions. They read only the published tables.
var Questions = []Named{
	{"Best of this week, by query", `SELECT query, place, title, channel_title, average_views_ratio, view_count, 'https://youtu.be/' || video_id AS link
FROM weekly_top WHERE week = date_trunc('week', current_date)
ORDER BY query, place`},
	{"New this week", `SELECT first_seen_at, video_id, title, channel_title, average_views_ratio, searched, link
FROM new_this_week ORDER BY average_views_ratio DESC LIMIT 50`},
	{"Fastest growing videos", `SELECT title, views_per_day, growth_per_day, view_count, to_at
FROM growth ORDER BY views_per_day DESC LIMIT 50`},
	{"What each query found for its credits", `SELECT job, queries, seeds, count(*) AS searches, sum(pages)::BIGINT AS pages, sum(credits)::BIGINT AS credits,
	sum(new_hits)::BIGINT AS new_hits, round(sum(credits) / nullif(sum(new_hits), 0), 3) AS credits_per_new_hit
FROM ops.searches GROUP BY ALL ORDER BY credits_per_new_hit`},
	{"Hits that searches have not read", `SELECT job, queries, seeds, seen, total, left_pages, stop_reason, began_at
FROM ops.coverage WHERE complete IS DISTINCT FROM true ORDER BY began_at DESC`},
	{"Credits by day", `SELECT day, credits, credits_in_month, cap_month
FROM ops.spend_by_day ORDER BY day`},
	{"How fresh each table is", `SELECT table_name, "rows", newest_at, days_behind FROM freshness ORDER BY "rows" DESC`},
}

// Readable is a table or view of the published file, with its columns.
type Readable struct {
	Name    string // without the schema main, which is the default
	Columns []string
}

// Catalog returns the views and tables of the published file, views first.
func Catalog() (all []Readable) {
	for _, v := range database.Views() {
		r := Readable{Name: strings.TrimPrefix(v.Name, "main.")}
		for _, c := range v.Columns {
			r.Columns = append(r.Columns, c.Name)
		}
		all = append(all, r)
	}
	for _, tables := range [][]*schema.Table{schema.Tables(), schema.OpsTables()} {
		for _, t := range tables {
			r := Readable{Name: t.Name}
			for _, c := range t.All() {
				r.Columns = append(r.Columns, c.Name)
			}
			all = append(all, r)
		}
	}
	return all
}
