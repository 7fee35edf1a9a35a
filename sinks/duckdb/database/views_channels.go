package database

import (
	"slices"

	"outlierd/schema"
)

// oneHitChannels has the channels whose average is misleading, because a few videos raise it.
var oneHitChannels = View{
	Name: "main.one_hit_channels",
	Comment: "Channels with outliers where a few videos have most of the views: " +
		"their variation coefficient is above 1.5. Compare best_median_ratio with best_ratio.",
	Columns: slices.Concat(columnsOf(schema.Outliers, "channel_id", "channel_title"), []ViewColumn{
		{"kind", "what was sampled: video or short"},
		{"view_variation_coefficient", "standard deviation of the views per video divided by their average"},
		{"average_views", "average views per video of the sample"},
		{"median_views", "median views per video of the sample"},
		{"outliers", "outliers of the channel that searches found"},
		{"best_ratio", "the highest average_views_ratio of these"},
		{"best_median_ratio", "the highest view_count of these divided by median_views"},
		{"best_video_id", "the outlier with the most views"},
		{"best_title", "its title"},
	}),
	SQL: `SELECT s.channel_id, any_value(o.channel_title) AS channel_title, s.kind,
			any_value(s.view_variation_coefficient) AS view_variation_coefficient,
			any_value(s.average_views_estimate) AS average_views,
			any_value(s.median_views_estimate) AS median_views, count(*) AS outliers,
			max(o.average_views_ratio) AS best_ratio,
			round(max(o.view_count) / nullif(any_value(s.median_views_estimate), 0), 2) AS best_median_ratio,
			arg_max(o.video_id, o.view_count) AS best_video_id, arg_max(o.title, o.view_count) AS best_title
		FROM main.channel_statistics AS s JOIN main.outliers AS o ON o.channel_id = s.channel_id
			AND s.kind = CASE WHEN o.kind = 'short' THEN 'short' ELSE 'video' END
		WHERE s.view_variation_coefficient > 1.5 GROUP BY s.channel_id, s.kind`,
}

var leaderboard = View{
	Name:    "main.channel_leaderboard",
	Comment: "Channels with the number, tiers, age and views of the outliers that searches found.",
	Columns: slices.Concat(columnsOf(schema.Outliers, "channel_id", "channel_title"), []ViewColumn{
		{"subscribers", "subscribers, as last seen"},
		{"outliers", "outliers that searches found"},
		{"tier_10x", "those with at least 10 times the channel's average views"},
		{"tier_5x", "those with at least 5 and less than 10 times"},
		{"tier_3x", "those with at least 3 and less than 5 times"},
		{"new_this_week", "those first seen in the seven days up to the newest answer"},
		{"best_ratio", "the highest average_views_ratio"},
		{"best_title", "title of the outlier with that ratio"},
		{"average_z_score", "average z_score of its outliers"},
		{"views", "total views of its outliers"},
		{"views_per_subscriber", "median of view_count divided by subscribers"},
		{"last_published_at", "when its newest outlier was published, UTC"},
	}),
	SQL: `SELECT channel_id, arg_max(channel_title, last_seen_at) AS channel_title,
			arg_max(channel_subscribers, last_seen_at) AS subscribers,
			count(*) AS outliers, count(*) FILTER (average_views_ratio >= 10) AS tier_10x,
			count(*) FILTER (average_views_ratio >= 5 AND average_views_ratio < 10) AS tier_5x,
			count(*) FILTER (average_views_ratio >= 3 AND average_views_ratio < 5) AS tier_3x,
			count(*) FILTER (` + days("first_seen_at", "n.at") + ` < 7
				AND first_seen_at IS DISTINCT FROM imported_seen_at) AS new_this_week,
			max(average_views_ratio) AS best_ratio, arg_max(title, average_views_ratio) AS best_title,
			round(avg(z_score), 2) AS average_z_score, TRY_CAST(sum(view_count) AS BIGINT) AS views,
			round(median(view_count / nullif(channel_subscribers, 0)), 3) AS views_per_subscriber,
			max(published_at) AS last_published_at
		FROM main.outliers JOIN (SELECT max(last_seen_at) AS at FROM main.outliers) AS n ON true
		WHERE channel_id IS NOT NULL GROUP BY channel_id`,
}

// followed recognizes the jobs that name channels by their calls: only their runs make calls about
// channels without a search.
var followed = View{
	Name: "main.followed",
	Comment: "The channels that `channels` jobs have requested, with the job: " +
		"those requested by runs without a search.",
	Columns: []ViewColumn{
		{"job", "name in jobs.yaml"},
		{"channel_id", "the channel's id, 24 characters"},
		{"channel_title", "name of the channel; NULL if the service does not have it"},
		{"first_asked_at", "when the job first requested it, UTC"},
		{"last_asked_at", "when the job last requested it, UTC"},
		{"answers", "answers with data"},
	},
	SQL: `SELECT r.job, r.entity AS channel_id, any_value(c.title) AS channel_title, min(r.sent_at) AS first_asked_at,
			max(r.sent_at) AS last_asked_at, count(*) FILTER (r.http_status = 200) AS answers
		FROM ops.requests AS r ANTI JOIN ops.searches AS s ON s.run_id = r.run_id
			LEFT JOIN main.channels AS c ON c.channel_id = r.entity
		WHERE r.operation IN ('channel_videos', 'channel_shorts') AND r.entity IS NOT NULL
			AND NOT starts_with(r.job, 'once:')
		GROUP BY r.job, r.entity`,
}

// gone reads the table missing, from which a row is deleted when the service returns the video or
// channel again.
var gone = View{
	Name: "main.gone",
	Comment: "Videos and channels that the service had and no longer has. " +
		"Comments and uploads are not included, because answers have only samples of them.",
	Columns: []ViewColumn{
		{"what", "video or channel"},
		{"id", "its id"},
		{"title", "title of the video, or name of the channel"},
		{"last_seen_at", "when it was last returned, UTC: a video by its details or, without details, by a search"},
		{"gone_since", "when the service first answered that it does not have it, UTC"},
		{"checked_at", "when the service last answered this, UTC"},
		{"reason", "the answer in words"},
	},
	SQL: `SELECT 'video' AS what, m.id, coalesce(v.title, o.title) AS title,
			coalesce(v.last_seen_at, o.last_seen_at) AS last_seen_at,
			m.first_seen_at AS gone_since, m.checked_at, m.reason
		FROM main.missing AS m LEFT JOIN main.videos AS v ON v.video_id = m.id
			LEFT JOIN main.outliers AS o ON o.video_id = m.id
		WHERE m.endpoint = 'details' AND coalesce(v.video_id, o.video_id) IS NOT NULL
		UNION ALL SELECT 'channel', m.id, c.title, c.last_seen_at, m.first_seen_at, m.checked_at, m.reason
		FROM main.missing AS m JOIN main.channels AS c ON c.channel_id = m.id WHERE m.endpoint = 'channel_videos'`,
}
