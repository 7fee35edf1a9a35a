package command

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/outlier/simulator"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/job"
)

// newThumbnails returns the pictures of the page; nil with `daemon.thumbnails: off`. Nothing is fetched
// before somebody looks at a page. Browsers cannot reach the simulator's pictures, so these are always
// proxied.
func newThumbnails(config *job.Config, tables *publishedTables, log *slog.Logger) *thumbnails.Thumbnails {
	d := config.Daemon
	with := thumbnails.Options{Find: tables.images, Former: tables.formerImage, Hosts: thumbnails.Hosts, Data: config.Data,
		MaxCache: d.ThumbnailsCache, Log: log}
	switch {
	case d.Thumbnails == job.ThumbnailsOff:
		return nil
	case d.Thumbnails == job.ThumbnailsProxy || config.Service.Simulated():
		with.Hosts = append([]string{simulator.PictureHost}, thumbnails.Hosts...)
		with.Transport = imageHosts{thumbnails.NewTransport(d.ThumbnailsProxy)}
	}
	return thumbnails.New(with)
}

// imageHosts sends requests to the image hosts, and has the pictures of simulated videos drawn.
type imageHosts struct{ network http.RoundTripper }

func (h imageHosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == simulator.PictureHost {
		return simulator.Pictures{}.RoundTrip(r)
	}
	return h.network.RoundTrip(r)
}

// images returns the pictures of videos.
func (t *publishedTables) images(ctx context.Context, ids []string) (map[string][]thumbnails.Image, error) {
	found := map[string][]thumbnails.Image{}
	_, err := t.ask(ctx, t.each(query.Thumbnails(ids), func(row cells) {
		var id string
		var image thumbnails.Image
		row.into(&id, &image.URL, &image.Width)
		found[id] = append(found[id], image)
	}))
	return found, err
}

// formerImage returns the picture that a video had at a time before it was changed.
func (t *publishedTables) formerImage(ctx context.Context, id string, at time.Time) (image thumbnails.Image, err error) {
	_, err = t.ask(ctx, t.each(query.FormerThumbnails(id), func(row cells) {
		var changed time.Time
		var before string
		if row.into(&changed, &before); image.URL == "" && changed.After(at) {
			image.URL = before
		}
	}))
	return image, err
}
