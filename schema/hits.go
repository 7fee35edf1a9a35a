package schema

import (
	"slices"

	"outlierd/outlier"
)

// hit is an outlier hit (interface, Outlier hit). Numbers are the service's
// estimates; it does not name the currency of money.
var hit = []Column{
	{Name: "video_id", Type: varchar, Path: "id", Comment: "the video's id, 11 characters"},
	{Name: "kind", Type: varchar, Path: "kind", Comment: "video or short"},
	{Name: "title", Type: varchar, Path: "snippet.title", Comment: "title of the video"},
	{Name: "channel_id", Type: varchar, Path: "snippet.channelId",
		Comment: "the channel's id, 24 characters"},
	{Name: "channel_title", Type: varchar, Path: "snippet.channelTitle", Comment: "name of the channel"},
	{Name: "channel_handle", Type: varchar, Path: "snippet.channelHandle",
		Comment: "as given, with or without @"},
	{Name: "channel_subscribers", Type: bigint, Path: "snippet.channelSubscribers",
		Comment: "subscribers of the channel"},
	{Name: "published_at", Type: timestamp, Path: "snippet.publishedAt",
		Comment: "when the video was published, UTC"},
	{Name: "language", Type: varchar, Path: "snippet.language", Comment: "language of the video, ISO 639-1"},
	{Name: "thumbnails", Type: thumbnails, Path: "snippet.thumbnails",
		Comment: "images by size; width and height in pixels"},
	{Name: "thumbnail_url", Type: varchar, of: []string{"thumbnails"}, computed: computeLargest,
		Comment: "URL of the largest thumbnail"},
	{Name: "duration", Type: bigint, Path: "snippet.duration", Comment: "length in seconds"},
	{Name: "rpm_estimation_from", Type: double, Path: "snippet.monetization.rpmEstimationFrom",
		Comment: "estimated revenue of the video per 1,000 views, lower bound, in the service's currency"},
	{Name: "rpm_estimation_to", Type: double, Path: "snippet.monetization.rpmEstimationTo",
		Comment: "estimated revenue of the video per 1,000 views, upper bound, in the service's currency"},
	{Name: "revenue_estimation_from", Type: double, Path: "snippet.monetization.revenueEstimationFrom",
		Comment: "estimated revenue of the video, lower bound, in the service's currency"},
	{Name: "revenue_estimation_to", Type: double, Path: "snippet.monetization.revenueEstimationTo",
		Comment: "estimated revenue of the video, upper bound, in the service's currency"},
	{Name: "channel_revenue_monthly_estimation_from", Type: double,
		Path:    "snippet.channelMonetization.revenueMonthlyEstimationFrom",
		Comment: "estimated revenue of the channel per month, lower bound, in the service's currency"},
	{Name: "channel_revenue_monthly_estimation_to", Type: double,
		Path:    "snippet.channelMonetization.revenueMonthlyEstimationTo",
		Comment: "estimated revenue of the channel per month, upper bound, in the service's currency"},
	{Name: "channel_rpm_estimation_from", Type: double, Path: "snippet.channelMonetization.rpmEstimationFrom",
		Comment: "estimated revenue of the channel per 1,000 views, lower bound, in the service's currency"},
	{Name: "channel_rpm_estimation_to", Type: double, Path: "snippet.channelMonetization.rpmEstimationTo",
		Comment: "estimated revenue of the channel per 1,000 views, upper bound, in the service's currency"},
	{Name: "channel_adsense", Type: boolean, Path: "snippet.channelMonetization.adsense",
		Comment: "whether advertising pays the channel"},
	{Name: "comment_count", Type: bigint, Path: "statistics.commentCount", Comment: "comments so far"},
	{Name: "like_count", Type: bigint, Path: "statistics.likeCount", Comment: "likes so far"},
	{Name: "view_count", Type: bigint, Path: "statistics.viewCount", Comment: "views so far"},
	{Name: "z_score", Type: double, Path: "statistics.zScore",
		Comment: "how many standard deviations view_count is above the channel's average"},
	{Name: "average_views_ratio", Type: double, Path: "statistics.averageViewsRatio",
		Comment: "view_count divided by the average views of the channel"},
	{Name: "is_positive_outlier", Type: boolean, Path: "statistics.isPositiveOutlier",
		Comment: "whether the service counts it as an outlier above the average"},
	{Name: "is_negative_outlier", Type: boolean, Path: "statistics.isNegativeOutlier",
		Comment: "whether the service counts it as an outlier below the average"},
	{Name: "is_faceless", Type: boolean, Path: "classification.isFaceless",
		Comment: "whether the service finds no person on camera"},
	{Name: "quality", Type: varchar, Path: "classification.quality",
		Comment: "the service's grade: negative, neutral or positive"},
	{Name: "service_time", Type: timestamp, Path: "time",
		Comment: "the service's time marker of the hit, UTC"},
	{Name: ImportedSeenAt, Type: timestamp, of: []string{"video_id"}, computed: computeImported,
		Comment: "when it was first seen as imported by `outlierd import`, UTC; NULL if it was not"},
	extra,
	fieldsMissing,
}

// found lists the columns for the search that returned a hit and for the hit's place.
var found = []Column{
	{Name: "source", Type: varchar, Comment: "search, related or scan"},
	{Name: "queries", Type: texts, Comment: "queries of the search; NULL if it had none"},
	{Name: "seeds", Type: texts, Comment: "seeds of a related search; NULL if it had none"},
	{Name: "item", Type: varchar, Comment: "the `for_each` value"},
	{Name: "page", Type: bigint, Comment: "page of the search, from 0"},
	{Name: "rank", Type: bigint, Comment: "place in the whole result, from 1", computed: computeRank},
}

// scanned is the column for the scan whose results contain a hit.
var scanned = Column{Name: "scan_id", Type: varchar,
	Comment: "the scan that returned the hit, UUID; NULL if another operation did"}

// OutliersHistory holds every observation of a hit.
var OutliersHistory = define(Table{
	Name: "outliers_history", Kind: History, Key: []string{"video_id"},
	Comment: "Every hit of every search page, with its rank.",
	Rows:    []Place{{outlier.OpSearch, "hits[]"}, {outlier.OpRelated, "hits[]"}},
	Columns: slices.Concat(hit, found, []Column{scanned}),
}, lineage)

// Outliers holds each video's latest hit.
var Outliers = OutliersHistory.defineCurrent("outliers", "view_count", hit, "Each outlier video as it was last seen by a search.")

// ImportedSeenAt is the column of hits that were seen before they were found here: first_seen_at is not later.
const ImportedSeenAt = "imported_seen_at"

func computeImported(s *Source, _ *row, of []any) any {
	video, _ := of[0].(string)
	return orNull(s.Imported[video])
}
