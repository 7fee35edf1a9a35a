package query

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	"outlierd/sinks/duckdb/database"
)

// What a page in a browser shows of one video or channel, and of the outliers in its list. Every
// function gives the SQL for it, with its values quoted: ids come from an address that anybody
// may have made up.

// Question is one of several about the same publication.
type Question struct {
	SQL string
	Row func([]any) error // gets each row; its slice is used again
}

// RunAll asks questions of this program one after another, as [Run] does. No publication comes
// between them.
func RunAll(ctx context.Context, path string, questions ...Question) error {
	return opened(ctx, path, func(conn driver.Conn) error {
		for _, q := range questions {
			if err := read(ctx, conn, q.SQL, nil, q.Row); err != nil {
				return fmt.Errorf("query %s: %w", path, err)
			}
		}
		return nil
	})
}

// seen are all sightings of videos by their ids: video_id, observed_at and view_count.
func seen(ids string) string {
	const table = "SELECT video_id, observed_at, view_count FROM %s WHERE video_id IN (%s) AND view_count IS NOT NULL"
	return fmt.Sprintf(table+" UNION ALL "+table+" UNION ALL "+table,
		"outliers_history", ids, "videos_history", ids, "channel_uploads_history", ids)
}

// Curves asks for the views of videos at their last sightings, at most so many: video_id, and a
// list of numbers, oldest first.
func Curves(ids []string, most int) string {
	var list []string
	for _, id := range ids {
		list = append(list, database.Text(id))
	}
	return fmt.Sprintf("SELECT video_id, list(view_count ORDER BY observed_at)[-%d:] FROM (%s) GROUP BY video_id",
		most, seen(strings.Join(list, ", ")))
}

// Curve asks for the views of a video over its last sightings, at most so many, oldest first:
// observed_at and view_count.
func Curve(id string, most int) string {
	return fmt.Sprintf("FROM (SELECT observed_at, view_count FROM (%s) ORDER BY observed_at DESC LIMIT %d) ORDER BY observed_at",
		seen(database.Text(id)), most)
}

// Video asks for what is known of a video: title, link, channel_id, channel_title, kind, language,
// duration in seconds, published_at, view_count, like_count, comment_count, average_views_ratio,
// z_score, first_seen_at, last_seen_at and description. There is no row of one that is not known.
func Video(id string) string {
	return fmt.Sprintf(`SELECT coalesce(v.title, o.title, u.title), %[2]s, coalesce(v.channel_id, o.channel_id, u.channel_id),
			coalesce(v.channel_title, o.channel_title), coalesce(v.kind, o.kind, u.kind), coalesce(o.language, v.default_audio_language),
			coalesce(v.duration, o.duration, u.duration), coalesce(v.published_at, o.published_at, u.published_at_estimate_at),
			s.view_count, coalesce(v.like_count, o.like_count), coalesce(v.comment_count, o.comment_count),
			coalesce(o.average_views_ratio, u.average_views_ratio), coalesce(o.z_score, u.z_score),
			least(o.first_seen_at, v.first_seen_at, u.first_seen_at), greatest(o.last_seen_at, v.last_seen_at, u.last_seen_at), v.description
		FROM (SELECT %[1]s AS video_id) AS t LEFT JOIN (FROM outliers WHERE video_id = %[1]s) AS o ON true
			LEFT JOIN (FROM videos WHERE video_id = %[1]s) AS v ON true LEFT JOIN (FROM channel_uploads WHERE video_id = %[1]s LIMIT 1) AS u ON true
			LEFT JOIN (SELECT arg_max(view_count, last_seen_at) AS view_count FROM (
				SELECT view_count, last_seen_at FROM outliers WHERE video_id = %[1]s
				UNION ALL SELECT view_count, last_seen_at FROM videos WHERE video_id = %[1]s
				UNION ALL SELECT view_count, last_seen_at FROM channel_uploads WHERE video_id = %[1]s)) AS s ON true
		WHERE coalesce(o.video_id, v.video_id, u.video_id) IS NOT NULL`, database.Text(id), VideoLink)
}

// Sightings asks which searches found a video, newest first: observed_at, the job, the run, what
// was searched for, page and rank, both from 1.
func Sightings(id string, most int) string {
	return fmt.Sprintf(`SELECT observed_at, _job, _run_id, coalesce(array_to_string(queries, ', '), array_to_string(seeds, ', '), item, source),
			page + 1, rank FROM outliers_history WHERE video_id = %s ORDER BY _response_id DESC LIMIT %d`, database.Text(id), most)
}

// Changes asks for the changes of a video's title, newest first: changed_by, before and after.
func Changes(id string) string {
	return fmt.Sprintf("SELECT changed_by, before, after FROM title_changes WHERE video_id = %s AND what = 'title' ORDER BY changed_by DESC LIMIT 50",
		database.Text(id))
}

// Comments asks for the comments of a video, the best liked first: author, text, published_at,
// likes_count, reply_count, and whether the channel's owner wrote it.
func Comments(id string) string {
	return fmt.Sprintf(`SELECT author_text, "text", published_at, likes_count, reply_count, author_is_channel_owner FROM comments
		WHERE video_id = %s ORDER BY likes_count DESC NULLS LAST, position`, database.Text(id))
}

// Lines asks for lines of a video's transcript in their order, those with some words or, for "",
// all: how many there are of them, start_ms and the text. Without any there is one row, with 0.
func Lines(id, words string, skip, most int) string {
	where := "video_id = " + database.Text(id)
	if words != "" {
		where += fmt.Sprintf(` AND contains(lower("text"), lower(%s))`, database.Text(words))
	}
	return fmt.Sprintf(`WITH wanted AS (SELECT position, start_ms, "text" FROM transcript_events WHERE %s)
		SELECT n.total, l.start_ms, l."text" FROM (SELECT count(*) AS total FROM wanted) AS n
			LEFT JOIN (FROM wanted ORDER BY position LIMIT %d OFFSET %d) AS l ON true ORDER BY l.position`, where, most, skip)
}

// Channel asks for what is known of a channel: title, handle, description, subscribers, videos,
// median views, outliers among its sampled uploads, last_seen_at. There is no row of one that is
// not known.
func Channel(id string) string {
	return fmt.Sprintf(`SELECT coalesce(c.title, o.channel_title), coalesce(c.handle, ltrim(o.channel_handle, '@')), c.description,
			coalesce(s.subscriber_count, o.channel_subscribers), s.videos_count, s.median_views_estimate, s.positive_outliers_count,
			greatest(c.last_seen_at, o.last_seen_at)
		FROM (SELECT 1) LEFT JOIN (FROM channels WHERE channel_id = %[1]s) AS c ON true
			LEFT JOIN (FROM outliers WHERE channel_id = %[1]s ORDER BY last_seen_at DESC LIMIT 1) AS o ON true
			LEFT JOIN (FROM channel_statistics WHERE channel_id = %[1]s ORDER BY last_seen_at DESC LIMIT 1) AS s ON true
		WHERE coalesce(c.channel_id, o.channel_id) IS NOT NULL`, database.Text(id))
}

// Subscribers asks for the subscribers of a channel over its last sightings, at most so many,
// oldest first: observed_at and their number.
func Subscribers(id string, most int) string {
	return fmt.Sprintf(`FROM (SELECT observed_at, n FROM (
			SELECT observed_at, subscriber_count AS n FROM channel_statistics_history WHERE channel_id = %[1]s
			UNION ALL SELECT observed_at, channel_subscribers FROM outliers_history WHERE channel_id = %[1]s)
			WHERE n IS NOT NULL ORDER BY observed_at DESC LIMIT %[2]d) ORDER BY observed_at`, database.Text(id), most)
}

// Uploads asks for the videos of a channel, from searches, details and its sampled uploads, newest
// first: how many there are, video_id, title, kind, published_at, view_count, average_views_ratio
// and z_score. Without any there is one row, with 0.
func Uploads(id string, skip, most int) string {
	return fmt.Sprintf(`WITH found AS (
			SELECT video_id, title, kind, published_at, view_count, average_views_ratio, z_score, last_seen_at FROM outliers WHERE channel_id = %[1]s
			UNION ALL SELECT video_id, title, kind, published_at, view_count, NULL, NULL, last_seen_at FROM videos WHERE channel_id = %[1]s
			UNION ALL SELECT video_id, title, kind, published_at_estimate_at, view_count, average_views_ratio, z_score, last_seen_at
				FROM channel_uploads WHERE channel_id = %[1]s
		), wanted AS (
			SELECT video_id, arg_max(title, last_seen_at) AS title, any_value(kind) AS kind, min(published_at) AS published_at,
				arg_max(view_count, last_seen_at) AS view_count, arg_max(average_views_ratio, last_seen_at) AS ratio,
				arg_max(z_score, last_seen_at) AS score FROM found GROUP BY video_id
		)
		SELECT n.total, w.video_id, w.title, w.kind, w.published_at, w.view_count, w.ratio, w.score
		FROM (SELECT count(*) AS total FROM wanted) AS n
			LEFT JOIN (FROM wanted ORDER BY published_at DESC NULLS LAST, video_id LIMIT %[2]d OFFSET %[3]d) AS w ON true
		ORDER BY w.published_at DESC NULLS LAST, w.video_id`, database.Text(id), most, skip)
}
