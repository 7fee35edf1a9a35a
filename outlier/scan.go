package outlier

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-faster/jx"
)

// The modes of a scan. Each has a price, and a threshold: fast ends at 1000
// outliers or 100 channels, standard at 2500 or 250 (interface, Limits).
const (
	ModeFast     = "fast" // the default
	ModeStandard = "standard"
)

// What a scan starts from.
const (
	FindByQuery    = "query" // the default
	FindByChannels = "channels"
)

// Scan is what steers in the record of a scan (interface, Scan record). Its rows
// come from package schema.
type Scan struct {
	ID     string // a UUID of version 4
	Name   string
	Status string   // any text: only Running is shown by the interface
	Query  []string // as submitted: queries, or channel ids

	// The threshold; nil if it was not given. Of a plain number, which is seen in
	// place of the object, it is not known which of both it is: it counts as the
	// outliers.
	Channels, OutlierVideos *int64

	CreatedAt, UpdatedAt time.Time // zero if not given
	EndedAt              time.Time // zero while it goes on
}

// The known ends of a scan, in lower case. No other status is one.
const (
	statusCompleted  = "completed"
	statusFailed     = "failed"
	statusTerminated = "terminated"
)

func (s Scan) status() string { return strings.ToLower(strings.TrimSpace(s.Status)) }

// Ended reports whether the scan is over: it says when, or its status is one that
// is known to be an end. An unknown status is not an end.
func (s Scan) Ended() bool {
	return !s.EndedAt.IsZero() || s.status() == statusCompleted || s.failed()
}

// Succeeded reports whether the scan is over and its results can be read.
func (s Scan) Succeeded() bool { return s.Ended() && !s.failed() }

func (s Scan) failed() bool {
	return s.status() == statusFailed || s.status() == statusTerminated
}

// ReadScan reads the answer of either scan endpoint. It takes any field to be null,
// absent or of another type, and fails only if body is not JSON or names no scan.
// With an error it returns what it read before it: an answer that was cut short
// may still tell the ID of a scan that was paid for.
func ReadScan(body []byte) (Scan, error) {
	var s Scan
	d := jx.DecodeBytes(body)
	if d.Next() != jx.Object {
		return Scan{}, errors.New("read a scan: not a JSON object")
	}
	if err := d.Obj(s.read); err != nil {
		return s, fmt.Errorf("read a scan: %w", err)
	}
	if s.ID == "" {
		return s, errors.New("read a scan: the answer has no id that is a UUID of version 4")
	}
	return s, nil
}

func (s *Scan) read(d *jx.Decoder, key string) error {
	switch key {
	case "id":
		err := text(d, &s.ID)
		if !scanID.MatchString(s.ID) {
			s.ID = ""
		}
		return err
	case "name":
		return text(d, &s.Name)
	case "status":
		return text(d, &s.Status)
	case "input":
		return object(d, s.readInput)
	case "createdAt":
		return moment(d, &s.CreatedAt)
	case "updatedAt":
		return moment(d, &s.UpdatedAt)
	case "endedAt":
		return moment(d, &s.EndedAt)
	}
	return d.Skip()
}

func (s *Scan) readInput(d *jx.Decoder, key string) error {
	switch {
	case key == "query":
		return array(d, func(d *jx.Decoder) error {
			var q string
			err := text(d, &q)
			s.Query = append(s.Query, q)
			return err
		})
	case key == "threshold" && d.Next() == jx.Object:
		return d.Obj(s.readThreshold)
	case key == "threshold":
		return count(d, &s.OutlierVideos)
	}
	return d.Skip()
}

func (s *Scan) readThreshold(d *jx.Decoder, key string) error {
	switch key {
	case "channels":
		return count(d, &s.Channels)
	case "outlierVideos":
		return count(d, &s.OutlierVideos)
	}
	return d.Skip()
}
