package outlier

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The modes of a scan. Each has a price and a threshold: fast ends at 1000 outliers or 100 channels,
// standard at 2500 or 250 (interface, Limits).
const (
	ModeFast     = "fast" // the default
	ModeStandard = "standard"
)

// The starting points of a scan.
const (
	FindByQuery    = "query" // the default
	FindByChannels = "channels"
)

// Scan is the part of a scan's record that controls the program (interface, Scan record). Package schema
// makes the rows.
type Scan struct {
	ID     string   // a UUID of version 4
	Status string   // any text: the interface shows only Running
	Query  []string // as submitted: queries, or channel ids

	// The threshold; nil if it is missing. A plain number, which occurs in place of the object, does not
	// say which of the two it is: it counts as that of outliers.
	Channels, OutlierVideos *int64

	CreatedAt time.Time // zero if missing
	EndedAt   time.Time // zero until the scan ends
}

// The known final statuses of a scan, in lower case.
const (
	statusCompleted  = "completed"
	statusFailed     = "failed"
	statusTerminated = "terminated"
)

func (s Scan) status() string { return strings.ToLower(strings.TrimSpace(s.Status)) }

// Ended reports whether the scan is over: it has a time of its end, or a known final status. An unknown
// status is not final.
func (s Scan) Ended() bool {
	return !s.EndedAt.IsZero() || s.status() == statusCompleted || s.hasFailed()
}

// Succeeded reports whether the scan is over and its results can be read.
func (s Scan) Succeeded() bool { return s.Ended() && !s.hasFailed() }

func (s Scan) hasFailed() bool {
	return s.status() == statusFailed || s.status() == statusTerminated
}

// ReadScan reads the answer of either scan endpoint. Any field may be null, absent or of another type. It
// returns an error only if body is not JSON or has no id. With the error it returns what it has read so
// far: an incomplete answer may have the ID of a scan that was paid for.
func ReadScan(body []byte) (Scan, error) {
	members, err := value(body).members()
	input := members["input"]
	s := Scan{ID: members["id"].text(), Status: members["status"].text(),
		CreatedAt: members["createdAt"].time(), EndedAt: members["endedAt"].time()}
	for _, query := range input.at("query").items() {
		s.Query = append(s.Query, query.text())
	}
	threshold := input.at("threshold")
	s.Channels, s.OutlierVideos = threshold.at("channels").count(), threshold.at("outlierVideos").count()
	if s.OutlierVideos == nil {
		s.OutlierVideos = threshold.count()
	}
	if !scanID.MatchString(s.ID) {
		s.ID = ""
	}
	if err == nil && s.ID == "" {
		err = errors.New("the answer has no id that is a UUID of version 4")
	}
	if err != nil {
		return s, fmt.Errorf("read a scan: %w", err)
	}
	return s, nil
}
