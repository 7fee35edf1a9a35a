package schema

import "outlierd/outlier"

// The answers of channel videos and channel shorts have one shape (interface,
// Channel with videos, Channel with shorts), and feed the same tables.

var channel = []Column{
	{Name: "channel_id", Type: varchar, Path: "id", Comment: "24 characters"},
	{Name: "kind", Type: varchar, Path: "kind"},
	{Name: "handle", Type: varchar, Path: "snippet.handle", Comment: "as given, with or without @"},
	{Name: "title", Type: varchar, Path: "snippet.title"},
	{Name: "description", Type: varchar, Path: "snippet.description"},
	{Name: "keywords", Type: texts, Path: "snippet.keywords"},
	{Name: "thumbnails", Type: thumbnails, Path: "snippet.thumbnails", Comment: "the service gives urls alone"},
	extra,
}

// ChannelsHistory holds a channel each time that something about it changed.
var ChannelsHistory = define(Table{
	Name: "channels_history", Kind: Changes, Key: []string{"channel_id"},
	Comment: "Each channel as it was whenever something about it changed.",
	Rows:    []Place{{outlier.OpChannelVideos, "item"}, {outlier.OpChannelShorts, "item"}},
	Columns: channel,
}, lineage)

// Channels holds each channel as last seen.
var Channels = define(Table{
	Name: "channels", Kind: Current, Key: []string{"channel_id"},
	Comment: "Each channel as it was last seen.",
	History: ChannelsHistory,
	Columns: channel,
}, lineage)

var channelStatistics = []Column{
	{Name: "channel_id", Type: varchar, Path: "../id"},
	{Name: "kind", Type: varchar, Comment: "what was sampled: video or short", told: tellSampled},
	{Name: "subscriber_count", Type: bigint, Path: "subscriberCount"},
	{Name: "subscriber_count_raw", Type: varchar, Path: "subscriberCountRaw"},
	{Name: "view_count_estimate", Type: double, Path: "viewCountEstimate"},
	{Name: "view_count_monthly_estimate", Type: double, Path: "viewCountMonthlyEstimate"},
	{Name: "videos_count", Type: bigint, Path: "videosCount"},
	{Name: "videos_sample_count", Type: bigint, Path: "videosSampleCount"},
	{Name: "videos_count_raw", Type: varchar, Path: "videosCountRaw", Comment: "text or number in the JSON"},
	{Name: "average_views_estimate", Type: double, Path: "averageViewsEstimate"},
	{Name: "median_views_estimate", Type: double, Path: "medianViewsEstimate"},
	{Name: "average_video_duration_estimate", Type: double, Path: "averageVideoDurationEstimate"},
	{Name: "standard_deviation_views_estimate", Type: double, Path: "standardDeviationViewsEstimate"},
	{Name: "view_variation_coefficient", Type: double, Path: "viewVariationCoefficient"},
	{Name: "avg_views_to_subscribers_ratio", Type: double, Path: "avgViewsToSubscribersRatio"},
	{Name: "last_published_at_estimate", Type: varchar, Path: "lastPublishedAtEstimate", Comment: "format not documented"},
	at("last_published_at_estimate_at", "last_published_at_estimate"),
	{Name: "oldest_parsed_published_at_estimate", Type: varchar, Path: "oldestParsedPublishedAtEstimate", Comment: "format not documented"},
	at("oldest_parsed_published_at_estimate_at", "oldest_parsed_published_at_estimate"),
	{Name: "positive_outliers_count", Type: bigint, Path: "positiveOutliersCount"},
	{Name: "negative_outliers_count", Type: bigint, Path: "negativeOutliersCount"},
	serviceTime,
	extra,
}

// ChannelStatisticsHistory holds every observation of a channel's numbers.
var ChannelStatisticsHistory = define(Table{
	Name: "channel_statistics_history", Kind: History, Key: []string{"channel_id", "kind"},
	Comment: "Every observation of a channel's numbers.",
	Rows:    []Place{{outlier.OpChannelVideos, "item.statistics"}, {outlier.OpChannelShorts, "item.statistics"}},
	Columns: channelStatistics,
}, lineage)

// ChannelStatistics holds each channel's last numbers, for videos and for shorts.
var ChannelStatistics = define(Table{
	Name: "channel_statistics", Kind: Current, Key: []string{"channel_id", "kind"},
	Comment: "Each channel's last numbers, for its videos and for its shorts.",
	History: ChannelStatisticsHistory,
	Columns: channelStatistics,
}, lineage)

var channelUploads = []Column{
	{Name: "channel_id", Type: varchar, Path: "../id"},
	{Name: "video_id", Type: varchar, Path: "id"},
	{Name: "kind", Type: varchar, Comment: "video or short", told: tellSampled},
	{Name: "title", Type: varchar, Path: "title"},
	{Name: "thumbnails", Type: namedImages, Path: "thumbnails", Comment: "a video's have names, a short's are a list"},
	{Name: "thumbnail_url", Type: varchar, Comment: "the largest of thumbnails", of: []string{"thumbnails"}, drawn: drawLargest},
	{Name: "duration", Type: bigint, Path: "duration", Comment: "seconds; not given for shorts"},
	{Name: "is_live_broadcast", Type: varchar, Path: "isLiveBroadcast", JSON: true, Comment: "shape not documented"},
	{Name: "published_at_estimate", Type: varchar, Path: "publishedAtEstimate", Comment: "format not documented"},
	at("published_at_estimate_at", "published_at_estimate"),
	{Name: "view_count", Type: bigint, Path: "viewCount"},
	{Name: "z_score", Type: double, Path: "statistics.zScore"},
	{Name: "average_views_ratio", Type: double, Path: "statistics.averageViewsRatio"},
	{Name: "is_positive_outlier", Type: boolean, Path: "statistics.isPositiveOutlier"},
	{Name: "is_negative_outlier", Type: boolean, Path: "statistics.isNegativeOutlier"},
	{Name: "position", Type: bigint, Comment: "place in the answer, from 0", drawn: drawPosition},
	extra,
}

// ChannelUploadsHistory holds every observation of a sampled upload.
var ChannelUploadsHistory = define(Table{
	Name: "channel_uploads_history", Kind: History, Key: []string{"channel_id", "video_id"},
	Comment: "Every observation of the uploads that the service sampled of a channel.",
	Rows:    []Place{{outlier.OpChannelVideos, "item.videos[]"}, {outlier.OpChannelShorts, "item.shorts[]"}},
	Columns: channelUploads,
}, lineage)

// ChannelUploads holds each sampled upload as last seen.
var ChannelUploads = define(Table{
	Name: "channel_uploads", Kind: Current, Key: []string{"channel_id", "video_id"},
	Comment: "Each sampled upload of a channel as it was last seen.",
	History: ChannelUploadsHistory,
	Columns: channelUploads,
}, lineage)

func tellSampled(v *vector, s *Source, n int) {
	kind := "video"
	if s.Op == outlier.OpChannelShorts {
		kind = "short"
	}
	v.texts([]byte(kind), n)
}
