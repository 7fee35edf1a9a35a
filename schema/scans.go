package schema

import "outlierd/outlier"

// Scans holds the record of each scan (interface, Scan record). How the scan was requested and what
// it cost are not in the record and come from the source.
var Scans = define(Table{
	Name: "scans", Kind: Current, Key: []string{"scan_id"},
	Comment: "Each scan as its record was last seen.",
	Rows:    []Place{{outlier.OpStartScan, ""}, {outlier.OpScan, ""}},
	Columns: []Column{
		{Name: "scan_id", Type: varchar, Path: "id", Comment: "the scan's id, UUID"},
		{Name: "name", Type: varchar, Path: "name", Comment: "name that the service gave the scan"},
		{Name: "status", Type: varchar, Path: "status",
			Comment: "as given; Running when it has just started"},
		{Name: "find_by", Type: varchar,
			Comment: "query or channels, as asked; NULL if not known"},
		{Name: "mode", Type: varchar,
			Comment: "fast or standard, as asked; NULL if not known"},
		{Name: "queries", Type: texts, Path: "input.query",
			Comment: "search queries, or channel ids if find_by is channels"},
		{Name: "threshold_channels", Type: bigint, Path: "input.threshold.channels",
			bare: outlier.FindByChannels,
			Comment: "most channels that the scan collects, 9007199254740991 for no limit; " +
				"also the threshold of a scan by channels if it is a plain number"},
		{Name: "threshold_outlier_videos", Type: bigint, Path: "input.threshold.outlierVideos",
			bare: outlier.FindByQuery,
			Comment: "most outliers that the scan collects; " +
				"also the threshold of a scan by query if it is a plain number; " +
				"a plain number is in extra if find_by is NULL"},
		{Name: "created_at", Type: timestamp, Path: "createdAt", Comment: "when the scan was started, UTC"},
		{Name: "updated_at", Type: timestamp, Path: "updatedAt",
			Comment: "when its record last changed, UTC"},
		{Name: "ended_at", Type: timestamp, Path: "endedAt",
			Comment: "when the scan ended, UTC; NULL while it runs"},
		{Name: "credits", Type: bigint,
			Comment: "credits that starting it cost; NULL if not known"},
		extra,
		fieldsMissing,
	},
}, lineage)
