package query

import (
	"fmt"
	"time"

	"outlierd/sinks/duckdb/database"
)

// This file has the queries for the pages of a video, a channel and the list of outliers in the
// browser. Each function returns SQL with quoted values, because ids come from URLs that anybody may
// have written.

// Question is one of several queries of the same published file.
type Question struct {
	SQL     string
	Before  string               // SQL that prepares the publication for it; may be ""
	Keep    bool                 // the rows are kept as long as the publication stays the same
	Columns func([]string) error // called once with the names of the columns; may be nil
	Row     func([]any) error    // called for each row; the slice is reused
}

// Curve returns a query for the views of a video at its last sightings: observed_at and view_count, at
// most most rows, oldest first.
func Curve(id string, most int) string {
	const table = "SELECT observed_at, view_count FROM %s WHERE video_id = %s AND view_count IS NOT NULL"
	id = database.Text(id)
	return fmt.Sprintf("FROM ("+table+" UNION ALL "+table+" UNION ALL "+table+" ORDER BY observed_at DESC LIMIT %d) ORDER BY observed_at",
		"outliers_history", id, "videos_history", id, "channel_uploads_history", id, most)
}

// Thumbnails returns a query for the pictures of videos, as they were last seen: video_id, url and width in pixels.
func Thumbnails(ids []string) string {
	of := func(images, table string) string {
		return "SELECT video_id, last_seen_at, " + images + " AS images FROM " + table + " WHERE video_id IN " + listTexts(ids)
	}
	const named = `[thumbnails."default", thumbnails.medium, thumbnails.high]`
	return "SELECT video_id, image.url, image.width FROM (SELECT video_id, unnest(images) AS image FROM (FROM (" +
		of(named, "outliers") + " UNION ALL " + of(named, "videos") + " UNION ALL " +
		of("[{url: t.url, width: t.width, height: t.height} FOR t IN thumbnails]", "channel_uploads") +
		") WHERE images IS NOT NULL QUALIFY row_number() OVER (PARTITION BY video_id ORDER BY last_seen_at DESC) = 1)) " +
		"WHERE image.url IS NOT NULL"
}

// Video returns a query for the data of a video: title, link, channel_id, channel_title, kind,
// language, duration in seconds, published_at, view_count, like_count, comment_count,
// average_views_ratio, z_score, first_seen_at, last_seen_at and description. The result is empty if the
// video is unknown. The details of a short call it a video, so its kind comes from searches and uploads.
func Video(id string) string {
	return fmt.Sprintf(`SELECT coalesce(v.title, o.title, u.title), %[2]s,
			coalesce(v.channel_id, o.channel_id, u.channel_id),
			coalesce(v.channel_title, o.channel_title), coalesce(o.kind, u.kind, v.kind),
			coalesce(o.language, v.default_audio_language),
			coalesce(v.duration, o.duration, u.duration),
			coalesce(v.published_at, o.published_at, u.published_at_estimate_at),
			s.view_count, coalesce(v.like_count, o.like_count), coalesce(v.comment_count, o.comment_count),
			coalesce(o.average_views_ratio, u.average_views_ratio), coalesce(o.z_score, u.z_score),
			least(o.first_seen_at, v.first_seen_at, u.first_seen_at),
			greatest(o.last_seen_at, v.last_seen_at, u.last_seen_at), v.description
		FROM (SELECT %[1]s AS video_id) AS t LEFT JOIN (FROM outliers WHERE video_id = %[1]s) AS o ON true
			LEFT JOIN (FROM videos WHERE video_id = %[1]s) AS v ON true
			LEFT JOIN (FROM channel_uploads WHERE video_id = %[1]s LIMIT 1) AS u ON true
			LEFT JOIN (SELECT arg_max(view_count, last_seen_at) AS view_count FROM (
				SELECT view_count, last_seen_at FROM outliers WHERE video_id = %[1]s
				UNION ALL SELECT view_count, last_seen_at FROM videos WHERE video_id = %[1]s
				UNION ALL SELECT view_count, last_seen_at FROM channel_uploads WHERE video_id = %[1]s)) AS s ON true
		WHERE coalesce(o.video_id, v.video_id, u.video_id) IS NOT NULL`, database.Text(id), VideoLink)
}

// Sightings returns a query for the searches that found a video: observed_at, the job, the run, what
// was searched for, page and rank, both from 1. It has at most most rows, newest first.
func Sightings(id string, most int) string {
	return fmt.Sprintf(`SELECT observed_at, _job, _run_id,
			coalesce(`+topic+`, array_to_string(seeds, ', '), source),
			page + 1, rank
		FROM outliers_history WHERE video_id = %s ORDER BY _response_id DESC LIMIT %d`, database.Text(id), most)
}

// Changes returns a query for the changes of a video: changed_by, the title before and after, and whether the thumbnail
// changed. It has at most 50 rows, newest first.
func Changes(id string) string {
	return fmt.Sprintf(`SELECT changed_by, any_value(before) FILTER (what = 'title'), any_value(after) FILTER (what = 'title'),
			bool_or(what = 'thumbnail')
		FROM title_changes WHERE video_id = %s GROUP BY changed_by ORDER BY changed_by DESC LIMIT 50`, database.Text(id))
}

// FormerThumbnail returns a query for the url of the thumbnail that a video had at a time; no row if it still has it.
func FormerThumbnail(id string, at time.Time) string {
	return fmt.Sprintf("SELECT before FROM title_changes WHERE video_id = %s AND what = 'thumbnail' "+
		"AND changed_by > %s::TIMESTAMPTZ ORDER BY changed_by LIMIT 1", database.Text(id), database.Text(at.Format(time.RFC3339)))
}

// Comments returns a query for the comments of a video, sorted by likes, most first: author, text,
// published_at, likes_count, and whether the author owns the channel.
func Comments(id string) string {
	return fmt.Sprintf(`SELECT author_text, "text", published_at, likes_count, author_is_channel_owner
		FROM comments
		WHERE video_id = %s ORDER BY likes_count DESC NULLS LAST, position`, database.Text(id))
}

// Lines returns a query for lines of a video's transcript, in order: the total number of matching
// lines, start_ms and the text. A line matches if it contains words; "" matches all. If there are none,
// the result has one row with the total.
func Lines(id, words string, skip, most int) string {
	where := "video_id = " + database.Text(id)
	if words != "" {
		where += fmt.Sprintf(` AND contains(lower("text"), lower(%s))`, database.Text(words))
	}
	return fmt.Sprintf(`WITH wanted AS (SELECT position, start_ms, "text" FROM transcript_events WHERE %s)
		SELECT n.total, l.start_ms, l."text" FROM (SELECT count(*) AS total FROM wanted) AS n
			LEFT JOIN (FROM wanted ORDER BY position LIMIT %d OFFSET %d) AS l ON true
			ORDER BY l.position`, where, most, skip)
}

// Channel returns a query for the data of a channel: title, handle, description, subscribers, videos,
// median views, outliers among its sampled uploads, last_seen_at, average views, and whether few videos have
// most of the views. The result is empty if the channel is unknown.
func Channel(id string) string {
	return fmt.Sprintf(`SELECT coalesce(c.title, o.channel_title),
			coalesce(c.handle, ltrim(o.channel_handle, '@')), c.description,
			coalesce(s.subscriber_count, o.channel_subscribers), s.videos_count, s.median_views_estimate,
			s.positive_outliers_count,
			greatest(c.last_seen_at, o.last_seen_at), s.average_views_estimate,
			coalesce(s.view_variation_coefficient > 1.5, false)
		FROM (SELECT 1) LEFT JOIN (FROM channels WHERE channel_id = %[1]s) AS c ON true
			LEFT JOIN (FROM outliers WHERE channel_id = %[1]s ORDER BY last_seen_at DESC LIMIT 1) AS o ON true
			LEFT JOIN (FROM channel_statistics WHERE channel_id = %[1]s ORDER BY last_seen_at DESC LIMIT 1) AS s ON true
		WHERE coalesce(c.channel_id, o.channel_id) IS NOT NULL`, database.Text(id))
}

// Subscribers returns a query for the subscribers of a channel at its last sightings: observed_at and
// their number, at most most rows, oldest first.
func Subscribers(id string, most int) string {
	return fmt.Sprintf(`FROM (SELECT observed_at, n FROM (
			SELECT observed_at, subscriber_count AS n FROM channel_statistics_history WHERE channel_id = %[1]s
			UNION ALL SELECT observed_at, channel_subscribers FROM outliers_history WHERE channel_id = %[1]s)
			WHERE n IS NOT NULL ORDER BY observed_at DESC LIMIT %[2]d) ORDER BY observed_at`, database.Text(id), most)
}

// Uploads returns a query for the videos of a channel from searches, details and its sampled uploads,
// newest first: the total number, video_id, title, kind, published_at, view_count, average_views_ratio
// and z_score. If there are none, the result has one row with the total.
func Uploads(id string, skip, most int) string {
	return fmt.Sprintf(`WITH found AS (
			SELECT video_id, title, kind, published_at, view_count, average_views_ratio, z_score, last_seen_at
			FROM outliers WHERE channel_id = %[1]s
			UNION ALL SELECT video_id, title, NULL, published_at, view_count, NULL, NULL, last_seen_at
			FROM videos WHERE channel_id = %[1]s
			UNION ALL SELECT video_id, title, kind, published_at_estimate_at, view_count, average_views_ratio,
				z_score, last_seen_at
				FROM channel_uploads WHERE channel_id = %[1]s
		), wanted AS (
			SELECT video_id, arg_max(title, last_seen_at) AS title, any_value(kind) AS found_as,
				min(published_at) AS published_at,
				arg_max(view_count, last_seen_at) AS view_count, arg_max(average_views_ratio, last_seen_at) AS ratio,
				arg_max(z_score, last_seen_at) AS score FROM found GROUP BY video_id
		)
		SELECT n.total, w.video_id, w.title, coalesce(w.found_as, v.kind), w.published_at, w.view_count, w.ratio, w.score
		FROM (SELECT count(*) AS total FROM wanted) AS n
			LEFT JOIN (FROM wanted ORDER BY published_at DESC NULLS LAST, video_id LIMIT %[2]d OFFSET %[3]d) AS w ON true
			LEFT JOIN videos AS v ON v.video_id = w.video_id
		ORDER BY w.published_at DESC NULLS LAST, w.video_id`, database.Text(id), most, skip)
}

// Sampled returns a query for the numbers of a channel's videos, or of its shorts: average and median of their views,
// and subscribers.
func Sampled(channel, kind string) string {
	if kind != "short" {
		kind = "video"
	}
	return fmt.Sprintf("SELECT average_views_estimate, median_views_estimate, subscriber_count, "+
		"coalesce(view_variation_coefficient > 1.5, false) FROM channel_statistics WHERE channel_id = %s AND kind = %s",
		database.Text(channel), database.Text(kind))
}
