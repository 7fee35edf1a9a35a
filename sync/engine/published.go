package engine

import (
	"fmt"
	"strings"
	"time"

	"outlierd/sync/job"
)

// anyTime is said of searches without published_at, sinceSuccess begins what is said of
// those that go on where the last one began.
const (
	anyTime      = "any time"
	sinceSuccess = "since last success"
)

// published says which publication dates a job asks for, whenever it is run; "" if it
// asks for nothing now. A window moves with every run, so its dates cannot be compared
// between two of them, and its words can. They follow from what the job would ask for at
// two made-up noons: at the first one as if it had never run, and a year later as if it
// had just come to a good end. Dates that stay the same are dates of the file.
func (e *Engine) published(spec *job.Spec, in job.Inputs) (string, error) {
	zone := e.Config.Timezone
	before, after := time.Date(2000, time.July, 1, 12, 0, 0, 0, zone), time.Date(2001, time.July, 1, 12, 0, 0, 0, zone)
	first, _, err := datesAt(spec, in, before, time.Time{}, zone)
	if err != nil || first == "" {
		return "", err
	}
	next, since, err := datesAt(spec, in, after, after, zone)
	switch {
	case err != nil || first == next:
		return first, err
	case since:
		return fmt.Sprintf("%s, overlap %dd, first %dd", sinceSuccess, daysBack(after, next), daysBack(before, first)), nil
	}
	return fmt.Sprintf("last %dd", daysBack(before, first)), nil
}

// datesAt are the publication dates that a job would ask for at the given time, and
// whether they depend on its last success. All its searches ask for the same.
func datesAt(spec *job.Spec, in job.Inputs, now, last time.Time, zone *time.Location) (dates string, since bool, err error) {
	in.Now, in.Since = now, func(string) (time.Time, error) { since = true; return last, nil }
	work, err := spec.Resolve(in)
	if err != nil || len(work.Asks) == 0 {
		return "", since, err
	}
	ask := work.Asks[0]
	if ask.Read != nil {
		ask = *ask.Read
	}
	if dates = window(ask.Params, zone); dates == "" {
		dates = anyTime
	}
	return dates, since, nil
}

// daysBack is how many days before noon a window begins.
func daysBack(noon time.Time, dates string) int {
	from, _, _ := strings.Cut(dates, "..")
	day, err := time.ParseInLocation(time.DateOnly, from, noon.Location())
	if err != nil {
		return 0 // it was written by us
	}
	return int(noon.Sub(day) / (24 * time.Hour)) // an hour more or less, as clocks are changed, is in the half day
}
