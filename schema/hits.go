package schema

import (
	"slices"

	"outlierd/outlier"
)

// hit is an outlier hit (interface, Outlier hit). Numbers are the service's
// estimates; money is in the unit that the service uses.
var hit = []Column{
	{Name: "video_id", Type: varchar, Path: "id", Comment: "11 characters"},
	{Name: "kind", Type: varchar, Path: "kind", Comment: "video or short"},
	{Name: "title", Type: varchar, Path: "snippet.title"},
	{Name: "channel_id", Type: varchar, Path: "snippet.channelId", Comment: "24 characters"},
	{Name: "channel_title", Type: varchar, Path: "snippet.channelTitle"},
	{Name: "channel_handle", Type: varchar, Path: "snippet.channelHandle", Comment: "as given, with or without @"},
	{Name: "channel_subscribers", Type: bigint, Path: "snippet.channelSubscribers"},
	{Name: "published_at", Type: timestamp, Path: "snippet.publishedAt"},
	{Name: "language", Type: varchar, Path: "snippet.language", Comment: "ISO 639-1"},
	{Name: "thumbnails", Type: thumbnails, Path: "snippet.thumbnails"},
	{Name: "thumbnail_url", Type: varchar, Comment: "the largest of thumbnails", of: []string{"thumbnails"}, drawn: drawLargest},
	{Name: "duration", Type: bigint, Path: "snippet.duration", Comment: "seconds"},
	{Name: "rpm_estimation_from", Type: double, Path: "snippet.monetization.rpmEstimationFrom"},
	{Name: "rpm_estimation_to", Type: double, Path: "snippet.monetization.rpmEstimationTo"},
	{Name: "revenue_estimation_from", Type: double, Path: "snippet.monetization.revenueEstimationFrom"},
	{Name: "revenue_estimation_to", Type: double, Path: "snippet.monetization.revenueEstimationTo"},
	{Name: "channel_revenue_monthly_estimation_from", Type: double, Path: "snippet.channelMonetization.revenueMonthlyEstimationFrom"},
	{Name: "channel_revenue_monthly_estimation_to", Type: double, Path: "snippet.channelMonetization.revenueMonthlyEstimationTo"},
	{Name: "channel_rpm_estimation_from", Type: double, Path: "snippet.channelMonetization.rpmEstimationFrom"},
	{Name: "channel_rpm_estimation_to", Type: double, Path: "snippet.channelMonetization.rpmEstimationTo"},
	{Name: "channel_adsense", Type: boolean, Path: "snippet.channelMonetization.adsense"},
	{Name: "comment_count", Type: bigint, Path: "statistics.commentCount"},
	{Name: "like_count", Type: bigint, Path: "statistics.likeCount"},
	{Name: "view_count", Type: bigint, Path: "statistics.viewCount"},
	{Name: "z_score", Type: double, Path: "statistics.zScore"},
	{Name: "average_views_ratio", Type: double, Path: "statistics.averageViewsRatio"},
	{Name: "is_positive_outlier", Type: boolean, Path: "statistics.isPositiveOutlier"},
	{Name: "is_negative_outlier", Type: boolean, Path: "statistics.isNegativeOutlier"},
	{Name: "is_faceless", Type: boolean, Path: "classification.isFaceless"},
	{Name: "quality", Type: varchar, Path: "classification.quality", Comment: "negative, neutral or positive"},
	{Name: "service_time", Type: timestamp, Path: "time", Comment: "the service's time marker of the hit"},
	extra,
}

// found says which search brought a hit, and where it stood.
var found = []Column{
	{Name: "source", Type: varchar, Comment: "search, related or scan", told: tellSource},
	{Name: "queries", Type: texts, Comment: "of a search", told: tellQueries},
	{Name: "seeds", Type: texts, Comment: "of a related search", told: tellSeeds},
	{Name: "item", Type: varchar, Comment: "the `for_each` value", told: tellItem},
	{Name: "page", Type: bigint, Comment: "page of the search, from 0", told: tellPage},
	{Name: "rank", Type: bigint, Comment: "place in the whole result, from 1", drawn: drawRank},
}

// scanned says which scan's results a hit is one of.
var scanned = Column{Name: "scan_id", Type: varchar, Comment: "of a scan's results", told: tellScan}

// OutliersHistory holds every observation of a hit.
var OutliersHistory = define(Table{
	Name: "outliers_history", Kind: History, Key: []string{"video_id"},
	Comment: "Every hit of every search page, and where it stood.",
	Rows:    []Place{{outlier.OpSearch, "hits[]"}, {outlier.OpRelated, "hits[]"}},
	Columns: slices.Concat(hit, found, []Column{scanned}),
}, lineage)

// Outliers holds each video's last hit.
var Outliers = define(Table{
	Name: "outliers", Kind: Current, Key: []string{"video_id"},
	Comment: "Each outlier video as it was last seen by a search.",
	History: OutliersHistory,
	Columns: hit,
}, lineage)

func tellSource(v *vector, s *Source, n int)  { v.texts([]byte(s.Kind), n) }
func tellQueries(v *vector, s *Source, n int) { v.lists(s.Queries, n) }
func tellSeeds(v *vector, s *Source, n int)   { v.lists(s.Seeds, n) }
func tellItem(v *vector, s *Source, n int)    { v.texts([]byte(s.Item), n) }
func tellPage(v *vector, s *Source, n int)    { v.ints(int64(s.Page), n) }
func tellScan(v *vector, s *Source, n int)    { v.texts([]byte(s.ScanID), n) }
