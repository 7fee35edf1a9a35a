package query

import (
	"fmt"
	"strings"

	"outlierd/sinks/duckdb/database"
)

// This file has the queries of the page of a niche: the outliers of one topic. They need [Setup].

// week is a week in microseconds, and newest the time of the newest answer.
const (
	week   = "604800000000"
	newest = "(SELECT epoch_us(max(last_seen_at)) FROM outliers)"
)

// weeksAgo is how many weeks before the newest answer an outlier was found: 0 are the last seven days, in which no
// imported one was found.
const weeksAgo = "greatest((" + newest + " - epoch_us(t.first_seen_at)) // " + week +
	", (t.first_seen_at IS NOT DISTINCT FROM t.imported_seen_at)::BIGINT)"

// Niches returns a query for the topics, with the most new outliers of the week first: topic, and their number.
func Niches(most int) string {
	return fmt.Sprintf(`SELECT b.topic, count(*) FILTER (%s < 1) AS fresh FROM brought AS b JOIN outliers AS t ON t.rowid = b.place
		GROUP BY b.topic ORDER BY fresh DESC, count(*) DESC, b.topic LIMIT %d`, weeksAgo, most)
}

// A Niche has the queries about a topic.
type Niche struct{ topic, from string }

// NicheOf returns the queries about a topic.
func NicheOf(topic string) Niche {
	return Niche{topic, "outliers AS t SEMI JOIN (SELECT place FROM brought WHERE topic = " + database.Text(topic) + ") AS b ON b.place = t.rowid"}
}

// Sums returns a query for the number of its outliers and channels, of channels that are new this week, and the median
// of times the average of this week and of all.
func (n Niche) Sums() string {
	return fmt.Sprintf(`SELECT count(*), count(DISTINCT t.channel_id),
			(SELECT count(*) FROM (SELECT t.channel_id FROM %[1]s GROUP BY t.channel_id HAVING max(%[2]s) < 1)),
			median(t.average_views_ratio) FILTER (%[2]s < 1), median(t.average_views_ratio) FROM %[1]s`, n.from, weeksAgo)
}

// Weeks returns a query for the outliers of its last weeks: how many weeks ago, and their number by strength.
func (n Niche) Weeks(most int) string {
	return fmt.Sprintf(`SELECT %[1]s::BIGINT AS ago, %[3]s FROM %[2]s WHERE %[1]s < %[4]d GROUP BY ago ORDER BY ago`,
		weeksAgo, n.from, byStrength, most)
}

// byStrength lists how many outliers are below 3 times the average, from 3, from 5, from 10 and from 30.
const byStrength = `[count(*) FILTER (NOT coalesce(t.average_views_ratio >= 3, false)),
	count(*) FILTER (t.average_views_ratio >= 3 AND t.average_views_ratio < 5),
	count(*) FILTER (t.average_views_ratio >= 5 AND t.average_views_ratio < 10),
	count(*) FILTER (t.average_views_ratio >= 10 AND t.average_views_ratio < 30),
	count(*) FILTER (t.average_views_ratio >= 30)]`

// Leaders returns a query for its channels with most outliers: channel_id, name, subscribers, the best times the
// average, outliers of this week, and outliers by strength.
func (n Niche) Leaders(most int) string {
	return fmt.Sprintf(`SELECT t.channel_id, arg_max(t.channel_title, t.last_seen_at), arg_max(t.channel_subscribers, t.last_seen_at),
			max(t.average_views_ratio) AS best, count(*) FILTER (%s < 1), %s FROM %s WHERE t.channel_id IS NOT NULL
		GROUP BY t.channel_id ORDER BY count(*) DESC, best DESC NULLS LAST, t.channel_id LIMIT %d`, weeksAgo, byStrength, n.from, most)
}

// titles are the titles of the topic's outliers, and of the other uploads of their channels.
func (n Niche) titles() string {
	return fmt.Sprintf(`hits AS MATERIALIZED (SELECT t.video_id, t.channel_id, t.title, t.average_views_ratio AS ratio FROM %s WHERE t.title IS NOT NULL),
		others AS MATERIALIZED (SELECT u.video_id, u.title FROM channel_uploads AS u SEMI JOIN hits ON hits.channel_id = u.channel_id
			ANTI JOIN outliers AS o ON o.video_id = u.video_id WHERE u.title IS NOT NULL)`, n.from)
}

// Words returns a query for words that its titles have more or less often than the other uploads of the same channels:
// the word, the number of titles, how much more often, the median of times the average, and the title of the strongest.
// Words of fewer than five titles or three channels are left out.
func (n Niche) Words(more, less int) string {
	const words = `unnest(list_distinct(regexp_split_to_array(lower(title), '[^\pL\pM\pN$€£]+'))) AS word`
	return fmt.Sprintf(`WITH %s, counted AS (
			SELECT w.word, count(*) AS n, count(DISTINCT w.channel_id) AS channels, median(w.ratio) AS typical, arg_max(w.title, w.ratio) AS title
			FROM (SELECT %s, title, channel_id, ratio FROM hits) AS w WHERE w.word <> '' GROUP BY w.word HAVING n >= 5 AND channels >= 3
		), usual AS (SELECT word, count(*) AS n FROM (SELECT %[2]s FROM others) SEMI JOIN counted USING (word) GROUP BY word
		), lifted AS (SELECT c.word, c.n, (c.n / (SELECT count(*) FROM hits)) / ((coalesce(u.n, 0) + 1) / ((SELECT count(*) FROM others) + 1)) AS lift,
				c.typical, c.title FROM counted AS c LEFT JOIN usual AS u ON u.word = c.word WHERE (SELECT count(*) FROM others) > 0)
		FROM (FROM lifted WHERE lift >= 1.5 ORDER BY lift DESC, n DESC, word LIMIT %[3]d)
		UNION ALL FROM (FROM lifted WHERE lift < .67 ORDER BY lift, n DESC, word LIMIT %[4]d) ORDER BY lift DESC, n DESC, word`,
		n.titles(), words, more, less)
}

// shapes are properties of titles.
var shapes = []struct{ name, where string }{
	{"in the first person", `regexp_matches(title, '(?i)\b(i|i''m|i''ve|my|me|we|our|ich|mein|meine|wir|eu|meu|yo|mi)\b')`},
	{"a price", `regexp_matches(title, '[$€£¥]\s?\d|\d\s?[$€£¥]')`},
	{"a number", `regexp_matches(title, '\d')`},
	{"a question", `regexp_matches(title, '[?？؟]')`},
	{"40 characters at most", "length(title) <= 40"},
	{"a word in capitals", `regexp_matches(title, '\b\p{Lu}{3,}\b')`},
}

// Shapes returns a query for the share of its titles with certain properties: the name, and the percentage of its
// titles and of the other uploads, whose number is the last column.
func (n Niche) Shapes() string {
	var rows []string
	for _, s := range shapes {
		rows = append(rows, fmt.Sprintf("SELECT %s, (SELECT 100 * avg((%s)::INTEGER) FROM hits), (SELECT 100 * avg((%[2]s)::INTEGER) FROM others), "+
			"(SELECT count(*) FROM others)", database.Text(s.name), s.where))
	}
	return "WITH " + n.titles() + " " + strings.Join(rows, " UNION ALL ")
}

// Coverage returns a query for how much of the last search was read: job, last run, hits read, hits counted by the
// service, and pages left.
func (n Niche) Coverage() string {
	return fmt.Sprintf("SELECT job, last_run_id, seen, total, left_pages FROM ops.coverage WHERE %s = %s ORDER BY began_at DESC LIMIT 1",
		topic, database.Text(n.topic))
}

// Shares returns a query for the share of new hits of its last runs, the oldest first.
func (n Niche) Shares(most int) string {
	return fmt.Sprintf("SELECT new_share FROM (SELECT new_share, began_at FROM ops.saturation WHERE %s = %s AND new_share IS NOT NULL "+
		"ORDER BY began_at DESC LIMIT %d) ORDER BY began_at", topic, database.Text(n.topic), most)
}

// Spent returns a query for the credits and new hits of its searches since a day.
func (n Niche) Spent(since string) string {
	return fmt.Sprintf("SELECT sum(credits)::BIGINT, sum(new_hits)::BIGINT FROM ops.searches WHERE %s = %s AND began_at >= %s::TIMESTAMPTZ",
		topic, database.Text(n.topic), database.Text(since))
}

// Yields returns a query for what each search found for its credits since a time: topic, job, credits, new hits, hits,
// distinct videos of the topic, those of them that other searches found, too, and the share of new hits in its last
// eight runs, the oldest first.
func Yields(since string) string {
	return fmt.Sprintf(`SELECT s.topic, s.job, s.credits, s.new_hits, s.hits, b.n, b.shared, s.shares FROM (
			SELECT %s AS topic, job, coalesce(sum(credits) FILTER (began_at >= %[2]s::TIMESTAMPTZ), 0)::BIGINT AS credits,
				coalesce(sum(new_hits) FILTER (began_at >= %[2]s::TIMESTAMPTZ), 0)::BIGINT AS new_hits,
				coalesce(sum(hits) FILTER (began_at >= %[2]s::TIMESTAMPTZ), 0)::BIGINT AS hits,
				(list(new_hits / hits ORDER BY id) FILTER (hits > 0))[-8:] AS shares
			FROM ops.searches WHERE operation <> 'start_scan' AND pages > 0 GROUP BY ALL) AS s
		LEFT JOIN (SELECT topic, count(*) AS n, count(*) FILTER (place IN (FROM several)) AS shared FROM brought GROUP BY topic) AS b ON b.topic = s.topic
		WHERE s.credits > 0 ORDER BY s.credits / greatest(s.new_hits, 1), s.topic, s.job LIMIT 200`, topic, database.Text(since))
}

// YieldsPlainly is [Yields] as a person would ask.
const YieldsPlainly = `SELECT coalesce(item, array_to_string(queries, ', ')) AS topic, job, sum(credits)::BIGINT AS credits, sum(new_hits)::BIGINT AS new_hits,
	round(sum(credits) / nullif(sum(new_hits), 0), 2) AS credits_per_new, round(sum(new_hits) / nullif(sum(hits), 0), 3) AS new_share
FROM ops.searches WHERE pages > 0 GROUP BY ALL ORDER BY credits_per_new NULLS LAST`

// Rests returns a query for the searches that have left hits unread: topic, job, last run, hits read, hits counted, and
// pages left.
func Rests(most int) string {
	return fmt.Sprintf(`SELECT topic, job, last_run_id, seen, total, left_pages FROM (
			SELECT %s AS topic, *, row_number() OVER (PARTITION BY job, topic ORDER BY began_at DESC) AS nth FROM ops.coverage)
		WHERE nth = 1 AND complete = false AND total > 0 ORDER BY left_pages, total LIMIT %d`, topic, most)
}

// SpentByDay returns a query for the credits of each day of a billing cycle and job: day, job, and credits.
func SpentByDay(cycle string) string {
	return fmt.Sprintf(`SELECT day, CASE WHEN starts_with(job, 'once:') THEN 'by hand' ELSE job END AS spender, sum(price)::BIGINT AS credits FROM ops.credits
		WHERE month = %s AND outcome <> 'refunded' AND operation IS DISTINCT FROM 'adjustment'
		GROUP BY ALL HAVING credits <> 0 ORDER BY day, spender`, database.Text(cycle))
}

// Unusual returns a query for the entries of the ledger in a billing cycle that a person may want to know: time, job,
// operation, outcome and credits.
func Unusual(cycle string, most int) string {
	return fmt.Sprintf(`SELECT reserved_at, job, operation, outcome, price FROM ops.credits
		WHERE month = %s AND (outcome IN ('unknown', 'refunded') OR operation = 'adjustment' OR price >= 10)
		ORDER BY id DESC LIMIT %d`, database.Text(cycle), most)
}
