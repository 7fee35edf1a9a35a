package pagedata

import (
	"context"
	"time"

	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/sinks/duckdb/query"
)

// Images returns the pictures of videos.
func (t *Tables) Images(ctx context.Context, ids []string) (map[string][]thumbnails.Image, error) {
	found := map[string][]thumbnails.Image{}
	err := t.read(ctx, t.each(query.Thumbnails(ids), func(row cells) {
		var id string
		var image thumbnails.Image
		row.into(&id, &image.URL, &image.Width)
		found[id] = append(found[id], image)
	}))
	return found, err
}

// FormerImage returns the picture that a video had at a time before it was changed.
func (t *Tables) FormerImage(ctx context.Context, id string, at time.Time) (image thumbnails.Image, err error) {
	err = t.read(ctx, t.each(query.FormerThumbnails(id), func(row cells) {
		var changed time.Time
		var before string
		if row.into(&changed, &before); image.URL == "" && changed.After(at) {
			image.URL = before
		}
	}))
	return image, err
}
