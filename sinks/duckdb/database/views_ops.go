package database

import (
	"slices"
	"strings"

	"outlierd/schema"
)

// coverage has one row per search, as of the last run that fetched pages of it.
var coverage = View{
	Name: "ops.coverage",
	Comment: "How much of its result each search has read: one row per search of a run, together with the runs that " +
		"continue it (`run --rest`). Scans and searches for which nothing was sent are left out.",
	Columns: slices.Concat(columnsOf(schema.OpsSearches, "job", "item", "operation", "queries", "seeds", "filters", "began_at"), []ViewColumn{
		{"run_id", "the first run of the search"},
		{"last_run_id", "the last run of the search"},
		{"total", "total hits as the service counts them; saturates at 10000"},
		{"seen", "distinct hits that were read"},
		{"left_hits", "hits that the service counts and the search has not seen; NULL if the service gives no total"},
		{"left_pages", "pages with these hits; NULL if it is not known how many"},
		{"complete", "whether no hits are left; NULL if the service gives no total"},
		{"pages", "pages taken"},
		{"credits", "credits that they cost"},
		{"stop_reason", "why no further page was taken; NULL while open"},
	}),
	SQL: `SELECT first(job ORDER BY id) AS job, first(item ORDER BY id) AS item,
			first(operation ORDER BY id) AS operation,
			first(queries ORDER BY id) AS queries, first(seeds ORDER BY id) AS seeds,
			first(filters ORDER BY id) AS filters,
			min(began_at) AS began_at, first(run_id ORDER BY id) AS run_id, last(run_id ORDER BY id) AS last_run_id,
			max(total) AS total, max(seen) AS seen, last(left_hits ORDER BY id) AS left_hits,
			CASE WHEN last(left_hits ORDER BY id) = 0 THEN 0 ELSE last(left_pages ORDER BY id) END AS left_pages,
			last(left_hits ORDER BY id) = 0 AS complete, sum(pages)::BIGINT AS pages,
			sum(credits)::BIGINT AS credits, last(stop_reason ORDER BY id) AS stop_reason
		FROM ops.searches WHERE operation <> 'start_scan' AND (pages > 0 OR rest_of IS NOT NULL)
		GROUP BY coalesce(rest_of, id)`,
}

// queryYield counts ids in the histories, because ops.searches has only the number of new hits. Hits
// are matched to searches by job, queries, seeds and item, each of which may be NULL.
var queryYield = View{
	Name:    "ops.query_yield",
	Comment: "What each query found and what it cost, over all runs.",
	Columns: slices.Concat(columnsOf(schema.OpsSearches, "job", "operation", "queries", "seeds", "item"), []ViewColumn{
		{"searches", "how often it was searched"},
		{"pages", "pages taken"},
		{"credits", "credits that they cost"},
		{"hits", "hits on those pages"},
		{"new_ids", "hits never seen before their run"},
		{"ids", "distinct videos or channels; NULL if the histories have no rows of the query, " +
			"for example because all its pages were reused from another job"},
		{"shared_ids", "those of ids that other queries found too; NULL if ids is NULL"},
		{"credits_per_new_id", "credits divided by new_ids; NULL if there are none"},
	}),
	SQL: `WITH searches AS (
			SELECT job, operation, queries, seeds, item, count(*) AS searches, sum(pages)::BIGINT AS pages,
				sum(credits)::BIGINT AS credits, sum(hits)::BIGINT AS hits, sum(new_hits)::BIGINT AS new_ids
			FROM ops.searches GROUP BY job, operation, queries, seeds, item
		), found AS (
			SELECT _job AS job, queries, seeds, item, video_id AS id FROM main.outliers_history
			UNION SELECT _job, queries, seeds, item, channel_id FROM main.found_channels_history
		), shared AS (
			SELECT id FROM found GROUP BY id HAVING count(*) > 1
		), ids AS (
			SELECT f.job, f.queries, f.seeds, f.item, count(*) AS ids, count(s.id) AS shared_ids
			FROM found AS f LEFT JOIN shared AS s ON s.id = f.id GROUP BY f.job, f.queries, f.seeds, f.item
		)
		SELECT s.job, s.operation, s.queries, s.seeds, s.item, s.searches, s.pages, s.credits, s.hits, s.new_ids,
			i.ids, i.shared_ids,
			s.credits / nullif(s.new_ids, 0) AS credits_per_new_id
		FROM searches AS s LEFT JOIN ids AS i ON i.job IS NOT DISTINCT FROM s.job
			AND i.queries IS NOT DISTINCT FROM s.queries AND i.seeds IS NOT DISTINCT FROM s.seeds AND i.item IS NOT DISTINCT FROM s.item`,
}

// spendByDay has adjustments in columns of their own, like `outlierd budget`: they may be negative,
// belong to a cycle, and are not caused by calls of that day.
var spendByDay = View{
	Name:    "ops.spend_by_day",
	Comment: "Credits by day, from the ledger.",
	Columns: []ViewColumn{
		{"month", "period key of the billing cycle, its first day"},
		{"day", "period key of the day, YYYY-MM-DD"},
		{"reservations", "calls for which credits were reserved"},
		{"credits", "credits of the day's calls: the sum of spent, unknown and reserved"},
		{"spent", "credits that the service charged"},
		{"unknown", "credits of calls without an answer; counted as charged"},
		{"reserved", "credits of calls that are not settled"},
		{"refunded", "credits that were refunded"},
		{"adjusted", "credits recorded that day as spent outside outlierd, less credits bought; " +
			"only adjusted_in_month includes them"},
		{"credits_in_month", "credits of the cycle up to and including the day"},
		{"adjusted_in_month", "adjusted of the cycle up to and including the day"},
		{"cap_day", "cap per day, credits, last in force; NULL if there was none"},
		{"cap_month", "cap per billing cycle, credits, last in force; NULL if there was none"},
	},
	SQL: `WITH days AS (
			SELECT month, day, count(*) FILTER (NOT adjusts) AS reservations,
				coalesce(sum(price) FILTER (NOT adjusts AND outcome = 'spent'), 0)::BIGINT AS spent,
				coalesce(sum(price) FILTER (outcome = 'unknown'), 0)::BIGINT AS unknown,
				coalesce(sum(price) FILTER (outcome = 'reserved'), 0)::BIGINT AS reserved,
				coalesce(sum(price) FILTER (outcome = 'refunded'), 0)::BIGINT AS refunded,
				coalesce(sum(price) FILTER (adjusts), 0)::BIGINT AS adjusted,
				last(cap_day ORDER BY id) FILTER (NOT adjusts) AS cap_day,
				last(cap_month ORDER BY id) FILTER (NOT adjusts) AS cap_month
			FROM (SELECT *, operation IS NOT DISTINCT FROM 'adjustment' AS adjusts FROM ops.credits) GROUP BY month, day
		)
		SELECT month, day, reservations, spent + unknown + reserved AS credits, spent, unknown, reserved,
			refunded, adjusted,
			sum(spent + unknown + reserved) OVER sofar::BIGINT AS credits_in_month,
			sum(adjusted) OVER sofar::BIGINT AS adjusted_in_month,
			cap_day, cap_month
		FROM days WINDOW sofar AS (PARTITION BY month ORDER BY day)`,
}

var saturation = View{
	Name: "ops.saturation",
	Comment: "How much of the result of each search was new, run by run: " +
		"if new_share stays low, the search finds little that is new. " +
		"Scans and searches for which nothing was sent are left out.",
	Columns: slices.Concat(columnsOf(schema.OpsSearches, "job", "item", "queries", "seeds", "run_id", "began_at"), []ViewColumn{
		{"nth", "how often the job has searched for it so far, from 1"},
		{"pages", "pages taken"},
		{"hits", "hits on those pages"},
		{"new_hits", "hits never seen before the run"},
		{"new_share", "new_hits divided by hits"},
		{"new_so_far", "new_hits of all runs up to this one"},
		{"total", "total hits as the service counts them; saturates at 10000"},
		{"seen_share", "distinct hits that were read divided by total; NULL if the service gives no total"},
		{"credits", "credits that the pages cost"},
		{"credits_per_new_hit", "credits divided by new_hits; NULL if there are none"},
	}),
	SQL: `SELECT job, item, queries, seeds, run_id, began_at, row_number() OVER searched AS nth, pages, hits, new_hits,
			round(new_hits / nullif(hits, 0), 3) AS new_share, sum(new_hits) OVER searched::BIGINT AS new_so_far,
			total, round(seen / nullif(total, 0), 3) AS seen_share, credits,
			credits / nullif(new_hits, 0) AS credits_per_new_hit
		FROM ops.searches WHERE operation <> 'start_scan' AND pages > 0
		WINDOW searched AS (PARTITION BY job, operation, item, queries, seeds ORDER BY id)`,
}

// freshness counts the rows of each table. This is cheap also for large tables, because DuckDB stores
// the number of rows, and compresses times to one or two bytes.
func freshness() View {
	return View{
		Name: "main.freshness",
		Comment: "The number of rows of each table, when its oldest and newest were observed, " +
			"and how far it is behind the newest table.",
		Columns: []ViewColumn{
			{"table_name", "the table"},
			{"rows", "number of its rows"},
			{"oldest_at", "when the oldest of them was observed, UTC; NULL if rows have no time"},
			{"newest_at", "when the newest of them was observed, UTC; NULL if rows have no time"},
			{"days_behind", "days between newest_at and the newest row in all tables"},
			{"newest_response_id", "number of its newest answer in the journal"},
		},
		SQL: `WITH tables AS (` + countTables() + `)
		SELECT table_name, "rows", oldest_at, newest_at,
			round(` + days("newest_at", "max(newest_at) OVER ()") + `, 1) AS days_behind,
			newest_response_id FROM tables`,
	}
}

func countTables() string {
	var counts []string
	for _, t := range schema.Tables() {
		at := "NULL::TIMESTAMPTZ"
		if slices.ContainsFunc(t.All(), func(c schema.Column) bool { return c.Name == "observed_at" }) {
			at = "observed_at"
		}
		counts = append(counts, "SELECT "+Text(t.Name)+` AS table_name, count(*) AS "rows", `+
			"min("+at+") AS oldest_at, max("+at+") AS newest_at, "+
			"max(_response_id) AS newest_response_id FROM main."+Name(t.Name))
	}
	return strings.Join(counts, " UNION ALL ")
}

// markedVideos has no schema before its name, because people join it with the data.
var markedVideos = View{
	Name: "main.marks",
	Comment: "The videos that people have starred, hidden, tagged or written a note about, " +
		"on the page or by `outlierd mark`.",
	Columns: columnsOf(schema.OpsMarks, "video_id", "starred", "hidden", "tags", "note", "marked_at"),
	SQL: `SELECT video_id, starred, hidden, tags, note, marked_at FROM ops.marks
		WHERE starred OR hidden OR len(tags) > 0 OR note IS NOT NULL`,
}
