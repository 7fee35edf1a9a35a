package database

import "outlierd/schema"

var commentSearch = View{
	Name:    "main.comment_search",
	Comment: "Comments with the video that they are about. Search with `where text ilike '%word%'`.",
	Columns: []ViewColumn{
		{"video_id", "the video's id, 11 characters"},
		{"video_title", "title of the video; NULL if neither a search nor details brought it"},
		{"channel_title", "name of the video's channel"},
		{"author_text", "name of the author"},
		{"author_is_channel_owner", "whether the author owns the channel of the video"},
		{"text", "what the comment says"},
		{"likes_count", "likes so far"},
		{"reply_count", "replies so far"},
		{"published_at", "when it was written, UTC"},
		{"observed_at", "when it was last fetched, UTC"},
		{"link", "address of the video"},
	},
	reads: []*schema.Table{schema.Comments, schema.CommentCounts, schema.Outliers, schema.Videos},
	SQL: `SELECT c.video_id, coalesce(v.title, o.title) AS video_title, coalesce(v.channel_title, o.channel_title) AS channel_title,
			c.author_text, c.author_is_channel_owner, c.text, c.likes_count, c.reply_count, c.published_at, n.observed_at,
			` + link("c.video_id") + ` AS link
		FROM main.comments AS c LEFT JOIN main.comment_counts AS n ON n.video_id = c.video_id
			LEFT JOIN main.videos AS v ON v.video_id = c.video_id LEFT JOIN main.outliers AS o ON o.video_id = c.video_id`,
}

var transcriptSearch = View{
	Name:    "main.transcript_search",
	Comment: "Transcripts line by line, with time codes and links to the moment. Search with `where text ilike '%word%'`.",
	Columns: []ViewColumn{
		{"video_id", "the video's id, 11 characters"},
		{"video_title", "title of the video; NULL if neither a search nor details brought it"},
		{"channel_title", "name of the channel"},
		{"position", "place in the transcript, from 0"},
		{"time_code", "when the line begins, such as 1:02:03 or 4:05"},
		{"start_ms", "the same in ms from the start of the video"},
		{"text", "what is said"},
		{"link", "address of the moment in the video"},
	},
	reads: []*schema.Table{schema.TranscriptEvents, schema.Outliers, schema.Videos},
	SQL: `SELECT e.video_id, coalesce(v.title, o.title) AS video_title, coalesce(v.channel_title, o.channel_title) AS channel_title, e.position,
			CASE WHEN e.start_ms >= 3600000 THEN format('{}:{:02d}:{:02d}', e.start_ms // 3600000, e.start_ms // 60000 % 60, e.start_ms // 1000 % 60)
				ELSE format('{}:{:02d}', e.start_ms // 60000, e.start_ms // 1000 % 60) END AS time_code,
			e.start_ms, e.text, ` + link("e.video_id") + ` || '?t=' || coalesce(e.start_ms // 1000, 0) AS link
		FROM main.transcript_events AS e
			LEFT JOIN main.videos AS v ON v.video_id = e.video_id LEFT JOIN main.outliers AS o ON o.video_id = e.video_id`,
}
