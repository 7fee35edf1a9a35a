package job

import (
	"cmp"
	"time"

	"outlierd/outlier"
)

// Search is a search as a job states it.
type search struct {
	Template  outlier.Search // everything but Published
	Pages     int            // at most so many; AllPages if the job does not say
	Published Window         // zero if published_at is absent or already dates in Template
}

// Window is a stretch of time that ends now.
type Window struct {
	Last time.Duration
	Zone *time.Location // whose midnights bound it; nil is UTC
}

func (w Window) begin(now time.Time) time.Time {
	zone := cmp.Or(w.Zone, time.UTC)
	days := int(w.Last / (24 * time.Hour))
	year, month, day := now.In(zone).AddDate(0, 0, -days).Add(-(w.Last % (24 * time.Hour))).Date()
	return clock(time.Date(year, month, day, 0, 0, 0, 0, time.UTC), zone)
}
