package schema

// Tables lists the data tables in a fixed order.
func Tables() []*Table {
	return []*Table{
		Outliers, OutliersHistory,
		Channels, ChannelsHistory,
		ChannelStatistics, ChannelStatisticsHistory,
		ChannelUploads, ChannelUploadsHistory,
		Videos, VideosHistory,
		Comments,
		CommentCounts, CommentCountsHistory,
		Transcripts, TranscriptEvents,
		Scans,
		FoundChannels, FoundChannelsHistory,
		TrendingFormats,
		Missing,
	}
}

// Columns that several tables have.
var (
	serviceTime = Column{Name: "service_time", Type: timestamp, Path: "/time", Comment: "the service's time marker of the answer, UTC"}
	extra       = Column{Name: "extra", Type: varchar, JSON: true, drawn: drawExtra,
		Comment: "unknown fields and values that do not fit their column, by dotted path below the row; NULL if none"}
)

// at is the companion of a column whose text is a time in an undocumented format.
func at(name, of string) Column {
	return Column{Name: name, Type: timestamp, Comment: of + " as a time; NULL if it does not parse", of: []string{of}, drawn: drawTime}
}
