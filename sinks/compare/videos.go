package compare

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// VideosOf returns the ids of all videos of channels, sorted. It reads all tables that have both
// columns.
func (r *Reader) VideosOf(ctx context.Context, s Source, channels []string) (videos []string, err error) {
	var of, all []string
	for _, channel := range channels {
		of = append(of, database.Text(channel))
	}
	for _, t := range schema.Tables() {
		if names := columnNames(t); slices.Contains(names, "video_id") && slices.Contains(names, "channel_id") {
			all = append(all, "SELECT video_id FROM "+s.from(t)+" WHERE channel_id IN ("+strings.Join(of, ", ")+")")
		}
	}
	rows, err := r.attachAndQuery(ctx, "SELECT DISTINCT video_id FROM ("+strings.Join(all, " UNION ALL ")+") WHERE video_id IS NOT NULL ORDER BY 1", s)
	if err != nil {
		return nil, fmt.Errorf("find the videos of channels in the tables of %s: %w", s.Name, err)
	}
	for _, row := range rows {
		videos = append(videos, row[0].(string))
	}
	return videos, nil
}
