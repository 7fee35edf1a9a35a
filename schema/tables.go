package schema

// AllTables lists the data tables, and then the operations tables.
func AllTables() []*Table { return append(Tables(), OpsTables()...) }

// Tables lists the data tables in a fixed order.
func Tables() []*Table {
	return []*Table{
		Outliers, OutliersHistory,
		Channels, ChannelsHistory,
		ChannelStatistics, ChannelStatisticsHistory,
		ChannelUploads, ChannelUploadsHistory,
		Videos, VideosHistory,
		Comments, CommentsHistory,
		CommentCounts, CommentCountsHistory,
		Transcripts, TranscriptEvents,
		Scans,
		FoundChannels, FoundChannelsHistory,
		TrendingFormats,
		Missing,
	}
}

// Columns of several tables.
var (
	serviceTime = Column{Name: "service_time", Type: timestamp, Path: "/time",
		Comment: "the service's time marker of the answer, UTC"}
	extra = Column{Name: "extra", Type: varchar, JSON: true, computed: computeExtra,
		Comment: "unknown fields and values that do not fit their column, by dotted path below the row; NULL if none"}

	// fieldsMissing distinguishes a field that the answer lacks from one that is null in it.
	fieldsMissing = Column{Name: "fields_missing", Type: texts, computed: computeFieldsMissing,
		Comment: "columns that are NULL because the answer lacks their field; " +
			"other NULLs are null in the answer, or their value is in extra"}
)

// at returns a column with the time parsed from column of, a text in an undocumented format.
func at(name, of string) Column {
	return Column{Name: name, Type: timestamp, of: []string{of}, computed: computeTime,
		Comment: of + " as a time; NULL if it does not parse"}
}
