package pagedata

import (
	"context"
	"time"

	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/sinks/duckdb/query"
)

// Images returns the pictures of a video: the one that it had at a time before it was changed, or else those of today.
func (t *Tables) Images(ctx context.Context, id string, at time.Time) (images []thumbnails.Image, err error) {
	if !at.IsZero() {
		err = t.read(ctx, rows(t, query.FormerThumbnail(id, at), &images))
	}
	if err == nil && len(images) == 0 {
		err = t.read(ctx, rows(t, query.Thumbnails(id), &images))
	}
	return images, err
}
