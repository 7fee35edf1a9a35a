package schema

import (
	"slices"

	"outlierd/outlier"
)

// foundChannel is a hit of the two channel searches. The interface documents only their price: the
// columns are the fields usual for such services, and all other fields are in extra.
var foundChannel = []Column{
	{Name: "channel_id", Type: varchar, Path: "id", Comment: "the channel's id, 24 characters"},
	{Name: "handle", Type: varchar, Path: "snippet.handle", Comment: "as given, with or without @"},
	{Name: "title", Type: varchar, Path: "snippet.title", Comment: "name of the channel"},
	{Name: "content_kind", Type: texts, Path: "snippet.contentKind",
		Comment: "what it publishes, such as video or short"},
	{Name: "subscribers", Type: bigint, Path: "statistics.subscribers", Comment: "subscribers"},
	{Name: "average_views", Type: double, Path: "statistics.averageViews",
		Comment: "average views per video"},
	{Name: "avg_views_to_subscribers_ratio", Type: double, Path: "statistics.avgViewsToSubscribersRatio",
		Comment: "average views per video divided by subscribers"},
	{Name: "language", Type: varchar, Path: "language.code", Comment: "language of the channel, ISO 639-1"},
	{Name: "adsense", Type: boolean, Path: "monetization.adsense",
		Comment: "whether advertising pays the channel"},
	{Name: "quality", Type: varchar, Path: "classification.quality",
		Comment: "the service's grade: negative, neutral or positive"},
	{Name: "is_faceless", Type: boolean, Path: "classification.isFaceless",
		Comment: "whether the service finds no person on camera"},
	extra,
	fieldsMissing,
}

// FoundChannelsHistory holds every observation of a channel by a channel search.
var FoundChannelsHistory = define(Table{
	Name: "found_channels_history", Kind: History, Key: []string{"channel_id"},
	Comment: "Every channel on every page of a channel search, with its rank.",
	Rows:    []Place{{outlier.OpFindChannels, "hits[]"}, {outlier.OpFindRelatedChannels, "hits[]"}},
	Columns: slices.Concat(foundChannel, found),
}, lineage)

// FoundChannels holds each channel as last seen by a channel search.
var FoundChannels = FoundChannelsHistory.defineCurrent("found_channels", "", foundChannel, "Each channel as it was last seen by a channel search.")
