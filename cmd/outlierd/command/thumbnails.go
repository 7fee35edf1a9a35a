package command

import (
	"log/slog"
	"net/http"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/outlier/simulator"
	"outlierd/sync/job"
)

// newThumbnails returns the pictures of the page; nil with `daemon.thumbnails: off`. Nothing is fetched
// before somebody looks at a page. Browsers cannot reach the simulator's pictures, so these are always
// proxied.
func newThumbnails(config *job.Config, tables *page.Tables, log *slog.Logger) *thumbnails.Thumbnails {
	d := config.Daemon
	with := thumbnails.Options{Find: tables.Images, Hosts: thumbnails.Hosts, Data: config.Data,
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

// addThumbnails adds the pictures to what a page shows; nil ones add nothing.
func addThumbnails(to *page.Sources, pictures *thumbnails.Thumbnails) {
	if pictures != nil {
		to.Thumbnails, to.ImageSources, to.ThumbnailTrouble = pictures.ServeHTTP, pictures.ImageSources(), pictures.Trouble
	}
}

// imageHosts sends requests to the image hosts, and has the pictures of simulated videos drawn.
type imageHosts struct{ network http.RoundTripper }

func (h imageHosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == simulator.PictureHost {
		return simulator.Pictures{}.RoundTrip(r)
	}
	return h.network.RoundTrip(r)
}
