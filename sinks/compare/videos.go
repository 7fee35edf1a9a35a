package compare

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// VideosOf returns the ids of all videos of channels, sorted. It reads all tables that have both
// columns.
func (r *Reader) VideosOf(ctx context.Context, s Source, channels []string) (videos []string, err error) {
	var of []string
	for _, channel := range channels {
		of = append(of, database.Text(channel))
	}
	found := map[string]bool{}
	for _, t := range schema.Tables() {
		names := columnNames(t)
		from := s.from(t)
		if from == "" || !slices.Contains(names, "video_id") || !slices.Contains(names, "channel_id") {
			continue
		}
		rows, err := r.attachAndQuery(ctx, fmt.Sprintf("SELECT DISTINCT video_id FROM %s WHERE channel_id IN (%s) "+
			"AND video_id IS NOT NULL", from, strings.Join(of, ", ")), s)
		if err != nil {
			return nil, fmt.Errorf("find the videos of channels in table %s of %s: %w", t.Name, s.Name, err)
		}
		for _, row := range rows {
			found[row[0].(string)] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
