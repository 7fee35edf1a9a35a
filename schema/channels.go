package schema

import "outlierd/outlier"

// The answers of channel videos and channel shorts have the same shape (interface,
// Channel with videos, Channel with shorts) and fill the same tables.

var channel = []Column{
	{Name: "channel_id", Type: varchar, Path: "id", Comment: "the channel's id, 24 characters"},
	{Name: "kind", Type: varchar, Path: "kind", Comment: "what the service calls it, such as channel"},
	{Name: "handle", Type: varchar, Path: "snippet.handle", Comment: "as given, with or without @"},
	{Name: "title", Type: varchar, Path: "snippet.title", Comment: "name of the channel"},
	{Name: "description", Type: varchar, Path: "snippet.description", Comment: "the channel's description"},
	{Name: "keywords", Type: texts, Path: "snippet.keywords", Comment: "the channel's own keywords"},
	{Name: "thumbnails", Type: thumbnails, Path: "snippet.thumbnails",
		Comment: "images by size; the service gives only their URLs"},
	extra,
	fieldsMissing,
}

// ChannelsHistory holds a row for each change of a channel.
var ChannelsHistory = define(Table{
	Name: "channels_history", Kind: Changes, Key: []string{"channel_id"},
	Comment: "One row per change of a channel, with all its values.",
	Rows:    []Place{{outlier.OpChannelVideos, "item"}, {outlier.OpChannelShorts, "item"}},
	Columns: channel,
}, lineage)

// Channels holds each channel as last seen.
var Channels = ChannelsHistory.defineCurrent("channels", "", channel, "Each channel as it was last seen.")

var channelStatistics = []Column{
	{Name: "channel_id", Type: varchar, Path: "../id", Comment: "the channel's id, 24 characters"},
	{Name: "kind", Type: varchar, Comment: "what was sampled: video or short"},
	{Name: "subscriber_count", Type: bigint, Path: "subscriberCount", Comment: "subscribers"},
	{Name: "subscriber_count_raw", Type: varchar, Path: "subscriberCountRaw",
		Comment: "subscribers as shown on the platform"},
	{Name: "view_count_estimate", Type: double, Path: "viewCountEstimate",
		Comment: "estimated views of all videos"},
	{Name: "view_count_monthly_estimate", Type: double, Path: "viewCountMonthlyEstimate",
		Comment: "estimated views per month"},
	{Name: "videos_count", Type: bigint, Path: "videosCount", Comment: "videos, or shorts, of the channel"},
	{Name: "videos_sample_count", Type: bigint, Path: "videosSampleCount",
		Comment: "videos, or shorts, from which the estimates were made"},
	{Name: "videos_count_raw", Type: varchar, Path: "videosCountRaw",
		Comment: "videos_count as shown on the platform; text or number in the JSON"},
	{Name: "average_views_estimate", Type: double, Path: "averageViewsEstimate",
		Comment: "average views per video of the sample"},
	{Name: "median_views_estimate", Type: double, Path: "medianViewsEstimate",
		Comment: "median views per video of the sample"},
	{Name: "average_video_duration_estimate", Type: double, Path: "averageVideoDurationEstimate",
		Comment: "average length in seconds"},
	{Name: "standard_deviation_views_estimate", Type: double, Path: "standardDeviationViewsEstimate",
		Comment: "standard deviation of the views per video"},
	{Name: "view_variation_coefficient", Type: double, Path: "viewVariationCoefficient",
		Comment: "standard deviation divided by the average: above about 1.5, a few videos have most of the views"},
	{Name: "avg_views_to_subscribers_ratio", Type: double, Path: "avgViewsToSubscribersRatio",
		Comment: "average views per video divided by subscribers"},
	{Name: "last_published_at_estimate", Type: varchar, Path: "lastPublishedAtEstimate",
		Comment: "when the newest video was published, as given; format not documented"},
	at("last_published_at_estimate_at", "last_published_at_estimate"),
	{Name: "oldest_parsed_published_at_estimate", Type: varchar, Path: "oldestParsedPublishedAtEstimate",
		Comment: "when the oldest of the sample was published, as given; format not documented"},
	at("oldest_parsed_published_at_estimate_at", "oldest_parsed_published_at_estimate"),
	{Name: "positive_outliers_count", Type: bigint, Path: "positiveOutliersCount",
		Comment: "outliers above the average in the sample"},
	{Name: "negative_outliers_count", Type: bigint, Path: "negativeOutliersCount",
		Comment: "outliers below the average in the sample"},
	serviceTime,
	extra,
	fieldsMissing,
}

// ChannelStatisticsHistory holds every observation of a channel's numbers.
var ChannelStatisticsHistory = define(Table{
	Name: "channel_statistics_history", Kind: History, Key: []string{"channel_id", "kind"},
	Comment: "Every observation of a channel's statistics.",
	Rows:    []Place{{outlier.OpChannelVideos, "item.statistics"}, {outlier.OpChannelShorts, "item.statistics"}},
	Columns: channelStatistics,
}, lineage)

// ChannelStatistics holds each channel's latest numbers, for videos and for shorts.
var ChannelStatistics = ChannelStatisticsHistory.defineCurrent("channel_statistics", "subscriber_count", channelStatistics, "Each channel's latest statistics, for its videos and for its shorts.")

var channelUploads = []Column{
	{Name: "channel_id", Type: varchar, Path: "../id", Comment: "the channel's id, 24 characters"},
	{Name: "video_id", Type: varchar, Path: "id", Comment: "the video's id, 11 characters"},
	{Name: "kind", Type: varchar, Comment: "video or short"},
	{Name: "title", Type: varchar, Path: "title", Comment: "title of the video"},
	{Name: "thumbnails", Type: namedImages, Path: "thumbnails",
		Comment: "images, width and height in pixels; a video's have names, a short's are a list"},
	{Name: "thumbnail_url", Type: varchar, of: []string{"thumbnails"}, computed: computeLargest,
		Comment: "URL of the largest thumbnail"},
	{Name: "duration", Type: bigint, Path: "duration", Comment: "length in seconds; not given for shorts"},
	{Name: "is_live_broadcast", Type: varchar, Path: "isLiveBroadcast", JSON: true,
		Comment: "about a live broadcast; shape not documented"},
	{Name: "published_at_estimate", Type: varchar, Path: "publishedAtEstimate",
		Comment: "when it was published, as given; format not documented"},
	at("published_at_estimate_at", "published_at_estimate"),
	{Name: "view_count", Type: bigint, Path: "viewCount", Comment: "views so far"},
	{Name: "z_score", Type: double, Path: "statistics.zScore",
		Comment: "how many standard deviations view_count is above the channel's average"},
	{Name: "average_views_ratio", Type: double, Path: "statistics.averageViewsRatio",
		Comment: "view_count divided by the average views of the channel"},
	{Name: "is_positive_outlier", Type: boolean, Path: "statistics.isPositiveOutlier",
		Comment: "whether the service counts it as an outlier above the average"},
	{Name: "is_negative_outlier", Type: boolean, Path: "statistics.isNegativeOutlier",
		Comment: "whether the service counts it as an outlier below the average"},
	{Name: "position", Type: bigint, Comment: "place in the answer, from 0", computed: computePosition},
	extra,
	fieldsMissing,
}

// ChannelUploadsHistory holds every observation of a sampled upload.
var ChannelUploadsHistory = define(Table{
	Name: "channel_uploads_history", Kind: History, Key: []string{"channel_id", "video_id"},
	Comment: "Every observation of the uploads that the service sampled of a channel.",
	Rows:    []Place{{outlier.OpChannelVideos, "item.videos[]"}, {outlier.OpChannelShorts, "item.shorts[]"}},
	Columns: channelUploads,
}, lineage)

// ChannelUploads holds each sampled upload as last seen.
var ChannelUploads = ChannelUploadsHistory.defineCurrent("channel_uploads", "view_count", channelUploads, "Each sampled upload of a channel as it was last seen.")
