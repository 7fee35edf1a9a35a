package database

import (
	"slices"

	"outlierd/schema"
)

var commentSearch = View{
	Name:    "main.comment_search",
	Comment: "Comments with their video. Search with `where text ilike '%word%'`.",
	Columns: slices.Concat([]ViewColumn{
		{"video_id", "the video's id, 11 characters"},
		{"video_title", "title of the video; NULL if neither a search nor details returned it"},
		{"channel_title", "name of the video's channel"},
	}, columnsOf(schema.Comments, "author_text", "author_is_channel_owner", "text", "likes_count", "reply_count"), []ViewColumn{
		{"published_at", "when it was written, UTC"},
		{"observed_at", "when it was last fetched, UTC"},
		{"link", "URL of the video"},
	}),
	SQL: `SELECT c.video_id, coalesce(v.title, o.title) AS video_title,
			coalesce(v.channel_title, o.channel_title) AS channel_title,
			c.author_text, c.author_is_channel_owner, c.text, c.likes_count, c.reply_count, c.published_at,
			n.observed_at, ` + link("c.video_id") + ` AS link
		FROM main.comments AS c LEFT JOIN main.comment_counts AS n ON n.video_id = c.video_id
			LEFT JOIN main.videos AS v ON v.video_id = c.video_id
			LEFT JOIN main.outliers AS o ON o.video_id = c.video_id`,
}

// commentsSeen distinguishes deleted comments from those that newer ones have displaced: an answer has
// at most 100 comments, so one with fewer has all of them.
var commentsSeen = View{
	Name: "main.comments_seen",
	Comment: "Each comment ever fetched, including those that are gone: when it was seen, how its likes grew, " +
		"and since when answers lack it. An answer has at most 100 comments, " +
		"so a missing comment may be deleted, or displaced by newer ones.",
	Columns: slices.Concat(columnsOf(schema.Comments, "video_id", "comment_key", "author_text", "text"), []ViewColumn{
		{"published_at", "when it was written, UTC"},
		{"first_seen_at", "when it was first fetched, UTC"},
		{"last_seen_at", "when it was last fetched, UTC"},
		{"times_seen", "answers that had it"},
		{"likes_first", "likes at first_seen_at"},
		{"likes_count", "likes at last_seen_at"},
		{"reply_count", "replies at last_seen_at"},
		{"gone_since", "the first answer after last_seen_at, which lacks it, UTC; NULL if the last answer has it"},
		{"deleted", "whether that answer had all comments of the video, so that the comment is deleted or hidden; " +
			"false if newer ones may have displaced it"},
	}),
	SQL: `WITH answers AS (
			SELECT video_id, _response_id, observed_at, lead(observed_at) OVER later AS next_at,
				lead(sampled < 100 OR sampled >= "count") OVER later AS next_has_all
			FROM main.comment_counts_history WHERE sampled IS NOT NULL
			WINDOW later AS (PARTITION BY video_id ORDER BY _response_id)
		), seen AS (
			SELECT video_id, comment_key, min(_response_id) AS first_id, max(_response_id) AS last_id,
				count(*) AS times_seen
			FROM main.comments_history GROUP BY video_id, comment_key
		)
		SELECT s.video_id, s.comment_key, l.author_text, l.text, l.published_at, first.observed_at AS first_seen_at,
			last.observed_at AS last_seen_at, s.times_seen, f.likes_count AS likes_first, l.likes_count, l.reply_count,
			last.next_at AS gone_since,
			CASE WHEN last.next_at IS NOT NULL THEN coalesce(last.next_has_all, false) END AS deleted
		FROM seen AS s
			JOIN main.comments_history AS f ON f.video_id = s.video_id AND f.comment_key = s.comment_key
				AND f._response_id = s.first_id
			JOIN main.comments_history AS l ON l.video_id = s.video_id AND l.comment_key = s.comment_key
				AND l._response_id = s.last_id
			JOIN answers AS first ON first.video_id = s.video_id AND first._response_id = s.first_id
			JOIN answers AS last ON last.video_id = s.video_id AND last._response_id = s.last_id`,
}

var transcriptSearch = View{
	Name: "main.transcript_search",
	Comment: "Transcripts line by line, with time codes and links to the moment. " +
		"Search with `where text ilike '%word%'`.",
	Columns: []ViewColumn{
		{"video_id", "the video's id, 11 characters"},
		{"video_title", "title of the video; NULL if neither a search nor details returned it"},
		{"channel_title", "name of the channel"},
		{"position", "place in the transcript, from 0"},
		{"time_code", "when the line begins, such as 1:02:03 or 4:05"},
		{"start_ms", "the same in ms from the start of the video"},
		{"text", "what is said"},
		{"link", "URL of the moment in the video"},
	},
	SQL: `SELECT e.video_id, coalesce(v.title, o.title) AS video_title,
			coalesce(v.channel_title, o.channel_title) AS channel_title, e.position,
			CASE WHEN e.start_ms >= 3600000 THEN
					format('{}:{:02d}:{:02d}', e.start_ms // 3600000, e.start_ms // 60000 % 60, e.start_ms // 1000 % 60)
				ELSE format('{}:{:02d}', e.start_ms // 60000, e.start_ms // 1000 % 60) END AS time_code,
			e.start_ms, e.text, ` + link("e.video_id") + ` || '?t=' || coalesce(e.start_ms // 1000, 0) AS link
		FROM main.transcript_events AS e
			LEFT JOIN main.videos AS v ON v.video_id = e.video_id
			LEFT JOIN main.outliers AS o ON o.video_id = e.video_id`,
}
