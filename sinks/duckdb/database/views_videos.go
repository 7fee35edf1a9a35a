package database

import (
	"fmt"
	"slices"

	"outlierd/schema"
)

// The views of the data do not read the clock: "recent" is relative to the newest answer in the file.
// So an old file always returns the same rows.
//
// They calculate with microseconds and days since 1970. DuckDB's arithmetic on times with a zone is in
// an extension that not all builds include.

// growth reads the current tables, in which the sinks keep the previous sighting: computing it from the
// history takes seconds for ten million sightings.
var growth = View{
	Name: "main.growth",
	Comment: "How fast each video grows: from the last time it was seen on an earlier day to the last time " +
		"it was seen. Videos seen on only one day are left out.",
	Columns: slices.Concat(columnsOf(schema.Outliers, "video_id", "title", "channel_id"), []ViewColumn{
		{"seen_in", "the table with the last sighting: outliers, videos or channel_uploads"},
		{"from_at", "the earlier sighting, UTC"},
		{"to_at", "the later sighting, UTC"},
		{"hours", "hours between them"},
		{"views_before", "views at from_at"},
		{"view_count", "views at to_at"},
		{"views_gained", "views between them"},
		{"views_per_hour", "views_gained per hour"},
		{"views_per_day", "views_gained per 24 hours"},
		{"growth_per_day", "views_gained per 24 hours divided by views_before: 0.1 is 10 % a day"},
	}),
	SQL: `WITH seen AS (
			SELECT video_id, title, channel_id, 'outliers' AS seen_in, previous_seen_at AS from_at,
				last_seen_at AS to_at, previous_view_count AS views_before, view_count FROM main.outliers WHERE previous_seen_at IS NOT NULL
			UNION ALL SELECT video_id, title, channel_id, 'videos', previous_seen_at, last_seen_at,
				previous_view_count, view_count FROM main.videos WHERE previous_seen_at IS NOT NULL
			UNION ALL SELECT video_id, title, channel_id, 'channel_uploads', previous_seen_at, last_seen_at,
				previous_view_count, view_count FROM main.channel_uploads WHERE previous_seen_at IS NOT NULL
		), latest AS (
			SELECT video_id, max(to_at) AS to_at FROM seen GROUP BY video_id
		), one AS (
			SELECT s.video_id, any_value(s) AS s FROM seen AS s
				JOIN latest AS l ON l.video_id = s.video_id AND l.to_at = s.to_at
			GROUP BY s.video_id
		)
		SELECT video_id, s.title, s.channel_id, s.seen_in, s.from_at, s.to_at, round(hours, 2) AS hours,
			s.views_before, s.view_count, gained AS views_gained, round(gained / nullif(hours, 0), 2) AS views_per_hour,
			round(24 * gained / nullif(hours, 0), 1) AS views_per_day,
			round(24 * gained / nullif(hours, 0) / nullif(s.views_before, 0), 4) AS growth_per_day
		FROM (
			SELECT *, 24 * ` + days("s.from_at", "s.to_at") + ` AS hours, ` + gained("s.views_before", "s.view_count") + ` AS gained
			FROM one
		)`,
}

var growthCurve = View{
	Name: "main.growth_curve",
	Comment: "The views of each video by day, from searches, details and uploads together, and what it gained since " +
		"the previous day on which it was seen. Select single videos with `where video_id = '…'`.",
	Columns: []ViewColumn{
		{"video_id", "the video's id, 11 characters"},
		{"day", "the day of the sighting, UTC"},
		{"seen_at", "the last sighting of the day, UTC"},
		{"view_count", "views at seen_at"},
		{"views_gained", "views since the previous day on which it was seen; NULL on the first day"},
		{"hours", "hours since the last sighting of that day"},
		{"views_per_hour", "views_gained per hour"},
		{"views_per_day", "views_gained per 24 hours"},
	},
	SQL: `WITH seen AS (
			SELECT video_id, observed_at, view_count FROM main.outliers_history
			UNION ALL SELECT video_id, observed_at, view_count FROM main.videos_history
			UNION ALL SELECT video_id, observed_at, view_count FROM main.channel_uploads_history
		), by_day AS (
			SELECT video_id, ` + day("observed_at") + ` AS day, max(observed_at) AS seen_at,
				arg_max(view_count, observed_at) AS view_count
			FROM seen WHERE view_count IS NOT NULL GROUP BY ALL
		), steps AS (
			SELECT *, ` + gained("lag(view_count) OVER seen_before", "view_count") + ` AS gained,
				24 * ` + days("lag(seen_at) OVER seen_before", "seen_at") + ` AS hours
			FROM by_day WINDOW seen_before AS (PARTITION BY video_id ORDER BY day)
		)
		SELECT video_id, day, seen_at, view_count, gained AS views_gained, round(hours, 2) AS hours,
			round(gained / nullif(hours, 0), 2) AS views_per_hour,
			round(24 * gained / nullif(hours, 0), 1) AS views_per_day
		FROM steps`,
}

// newThisWeek selects videos in the current table, which is small, and then reads the history of these
// videos only.
var newThisWeek = View{
	Name: "main.new_this_week",
	Comment: "Videos that a search found for the first time in the seven days up to the newest answer, " +
		"with the queries that found them.",
	Columns: slices.Concat(columnsOf(schema.Outliers, "video_id", "title", "channel_title"), []ViewColumn{
		{"first_seen_at", "when a search first found it, UTC"},
		{"published_at", "when the video was published, UTC"},
		{"days_until_seen", "days from its publication to first_seen_at"},
		{"view_count", "views, as last seen"},
		{"average_views_ratio", "view_count divided by the average views of the channel, as last seen"},
		{"z_score", "standard deviations above the channel's average, as last seen"},
		{"jobs", "jobs whose searches found it"},
		{"searched", "queries that found it, and seeds of related searches"},
		{"link", "URL of the video"},
	}),
	SQL: `WITH fresh AS (
			SELECT * FROM main.outliers WHERE ` + days("first_seen_at", newest) + ` < 7
				AND first_seen_at IS DISTINCT FROM imported_seen_at
		), brought AS (
			SELECT h.video_id, list_sort(list_distinct(list(h._job))) AS jobs,
				list_sort(list_distinct(flatten(list(
					list_concat(coalesce(h.queries, []), coalesce(h.seeds, []))
				)))) AS searched
			FROM main.outliers_history AS h SEMI JOIN fresh ON fresh.video_id = h.video_id GROUP BY h.video_id
		)
		SELECT f.video_id, f.title, f.channel_title, f.first_seen_at, f.published_at,
			round(` + days("f.published_at", "f.first_seen_at") + `, 1) AS days_until_seen,
			f.view_count, f.average_views_ratio, f.z_score, b.jobs, b.searched, ` + link("f.video_id") + ` AS link
		FROM fresh AS f LEFT JOIN brought AS b ON b.video_id = f.video_id`,
}

var weeklyTop = View{
	Name: "main.weekly_top",
	Comment: "The ten best videos of each week and query by average_views_ratio, " +
		"each at its highest ratio of that week. Select one week to read only that.",
	Columns: []ViewColumn{
		{"week", "Monday of the week, UTC"},
		{"query", "the query that found the video, or the seed of a related search"},
		{"place", "place among the videos of the week and query, from 1"},
		{"video_id", "the video's id, 11 characters"},
		{"title", "title of the video"},
		{"channel_title", "name of the channel"},
		{"average_views_ratio", "view_count divided by the average views of the channel, the highest of the week"},
		{"z_score", "standard deviations above the channel's average, at that sighting"},
		{"view_count", "views, at that sighting"},
		{"observed_at", "time of that sighting, UTC"},
	},
	SQL: `WITH seen AS (
			SELECT date_trunc('week', ` + day("observed_at") + `)::DATE AS week,
				unnest(list_concat(coalesce(queries, []), coalesce(seeds, []))) AS query,
				video_id, average_views_ratio, z_score, view_count, observed_at
			FROM main.outliers_history WHERE average_views_ratio IS NOT NULL
		), best AS (
			SELECT week, query, video_id, max(average_views_ratio) AS average_views_ratio,
				arg_max(z_score, average_views_ratio) AS z_score,
				arg_max(view_count, average_views_ratio) AS view_count,
				arg_max(observed_at, average_views_ratio) AS observed_at
			FROM seen GROUP BY week, query, video_id
		), placed AS (
			SELECT *, row_number() OVER (
				PARTITION BY week, query ORDER BY average_views_ratio DESC, video_id
			) AS place FROM best
		)
		SELECT p.week, p.query, p.place, p.video_id, o.title, o.channel_title, p.average_views_ratio, p.z_score,
			p.view_count, p.observed_at
		FROM placed AS p LEFT JOIN main.outliers AS o ON o.video_id = p.video_id WHERE p.place <= 10`,
}

// scores halves the score for every 30 days since publication, because old successes say little about
// what works now.
var scores = View{
	Name: "main.scores",
	Comment: "Each outlier video with values to rank it by: a tier, a score that decays with age, " +
		"and views per subscriber and per day.",
	Columns: slices.Concat(columnsOf(schema.Outliers, "video_id", "title", "channel_id", "channel_title"), []ViewColumn{
		{"tier", "10x, 5x, 3x or below 3x, by average_views_ratio; NULL if that is NULL"},
		{"score", "z_score, halved for every 30 days between publication and the newest answer"},
		{"z_score", "standard deviations above the channel's average, as last seen"},
		{"average_views_ratio", "view_count divided by the average views of the channel, as last seen"},
		{"median_views_ratio", "view_count divided by the median views of the channel; " +
			"NULL if its statistics were not fetched"},
		{"one_hit", "whether a few videos have most of the channel's views (variation coefficient above 1.5), " +
			"so that the average is misleading: see median_views_ratio; NULL if its statistics were not fetched"},
		{"view_count", "views, as last seen"},
		{"views_per_subscriber", "view_count divided by the channel's subscribers"},
		{"views_per_day", "view_count divided by the days between publication and the last sighting"},
		{"age_days", "days between publication and the newest answer"},
		{"link", "URL of the video"},
	}),
	SQL: `SELECT o.video_id, o.title, o.channel_id, o.channel_title,
			CASE WHEN o.average_views_ratio >= 10 THEN '10x' WHEN o.average_views_ratio >= 5 THEN '5x'
				WHEN o.average_views_ratio >= 3 THEN '3x'
				WHEN o.average_views_ratio IS NOT NULL THEN 'below 3x' END AS tier,
			round(o.z_score * pow(0.5, greatest(` + days("o.published_at", "n.at") + `, 0) / 30), 3) AS score,
			o.z_score, o.average_views_ratio,
			round(o.view_count / nullif(s.median_views_estimate, 0), 2) AS median_views_ratio,
			s.view_variation_coefficient > 1.5 AS one_hit, o.view_count,
			round(o.view_count / nullif(o.channel_subscribers, 0), 3) AS views_per_subscriber,
			round(
				o.view_count / nullif(greatest(` + days("o.published_at", "o.last_seen_at") + `, 0), 0), 1
			) AS views_per_day,
			round(` + days("o.published_at", "n.at") + `, 1) AS age_days, ` + link("o.video_id") + ` AS link
		FROM main.outliers AS o JOIN (SELECT max(last_seen_at) AS at FROM main.outliers) AS n ON true
			LEFT JOIN main.channel_statistics AS s ON s.channel_id = o.channel_id
				AND s.kind = CASE WHEN o.kind = 'short' THEN 'short' ELSE 'video' END`,
}

var recurrence = View{
	Name:    "main.recurrence",
	Comment: "Each outlier video with the queries that found it, and the number of jobs and runs.",
	Columns: slices.Concat(columnsOf(schema.Outliers, "video_id", "title", "channel_title"), []ViewColumn{
		{"queries", "distinct queries and seeds that found it"},
		{"query_count", "number of queries"},
		{"jobs", "number of distinct jobs"},
		{"runs", "number of distinct runs"},
		{"best_rank", "its best place in a result, from 1"},
		{"average_views_ratio", "view_count divided by the average views of the channel, as last seen"},
		{"first_seen_at", "when a search first found it, UTC"},
		{"last_seen_at", "when a search last found it, UTC"},
	}),
	SQL: `WITH brought AS (
			SELECT video_id,
				list_sort(list_distinct(flatten(list(
					list_concat(coalesce(queries, []), coalesce(seeds, []))
				)))) AS queries,
				count(DISTINCT _job) AS jobs, count(DISTINCT _run_id) AS runs, min("rank") AS best_rank
			FROM main.outliers_history GROUP BY video_id
		)
		SELECT b.video_id, o.title, o.channel_title, b.queries, len(b.queries) AS query_count, b.jobs, b.runs,
			b.best_rank, o.average_views_ratio, o.first_seen_at, o.last_seen_at
		FROM brought AS b LEFT JOIN main.outliers AS o ON o.video_id = b.video_id`,
}

// titleChanges compares sightings within one table only, because a search and the details may return
// the title in different languages.
var titleChanges = View{
	Name:    "main.title_changes",
	Comment: "Titles and thumbnails that changed from one sighting of a video to the next, in searches or in details.",
	Columns: slices.Concat(columnsOf(schema.Outliers, "video_id", "channel_title"), []ViewColumn{
		{"what", "title or thumbnail"},
		{"before", "the title, or the URL of the largest thumbnail"},
		{"after", "the same after the change"},
		{"seen_before_at", "the last sighting before the change, UTC"},
		{"changed_by", "the first sighting after it, UTC"},
		{"views_before", "views at seen_before_at"},
		{"view_count", "views at changed_by"},
		{"seen_in", "the table whose history shows it: outliers or videos"},
	}),
	SQL: `WITH seen AS (
			SELECT video_id, channel_title, title, thumbnail_url AS thumbnail, observed_at, view_count,
				_response_id, 'outliers' AS seen_in
			FROM main.outliers_history
			UNION ALL SELECT video_id, channel_title, title,
				coalesce(thumbnails.high.url, thumbnails.medium.url, thumbnails."default".url), observed_at,
				view_count, _response_id, 'videos'
			FROM main.videos_history
		), pairs AS (
			SELECT *, lag(title) OVER sightings AS title_before, lag(thumbnail) OVER sightings AS thumbnail_before,
				lag(observed_at) OVER sightings AS seen_before_at, lag(view_count) OVER sightings AS views_before
			FROM seen WINDOW sightings AS (PARTITION BY video_id, seen_in ORDER BY _response_id)
		)
		SELECT video_id, channel_title, 'title' AS what, title_before AS before, title AS after, seen_before_at,
			observed_at AS changed_by, views_before, view_count, seen_in FROM pairs WHERE title <> title_before
		UNION ALL SELECT video_id, channel_title, 'thumbnail', thumbnail_before, thumbnail, seen_before_at,
			observed_at, views_before, view_count, seen_in FROM pairs WHERE thumbnail <> thumbnail_before`,
}

// newest is the SQL for the time of the newest answer of a search.
const newest = `(SELECT max(last_seen_at) FROM main.outliers)`

// days returns the SQL for the days between two times, with fractions.
func days(from, to string) string {
	return fmt.Sprintf("((epoch_us(%s) - epoch_us(%s)) / 86400000000)", to, from)
}

// day returns the SQL for the date of a time, in UTC.
func day(of string) string {
	return "(DATE '1970-01-01' + (epoch_us(" + of + ") // 86400000000)::INTEGER)"
}

// link returns the SQL for the URL of a video, in the form that outlierd prints everywhere.
func link(id string) string { return `'https://youtu.be/' || ` + id }

// gained returns the SQL of the difference of two counts; NULL if it is out of range, because the service may send any
// number, and an error would break the view for all rows.
func gained(from, to string) string {
	return fmt.Sprintf("TRY_CAST((%s)::HUGEINT - (%s) AS BIGINT)", to, from)
}
