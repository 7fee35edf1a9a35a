package plan

import (
	"sort"
	"time"

	"outlierd/sync/job"
)

// Calendar counts the due times of the jobs of a file within a period. Equal schedules are
// computed once, so that many jobs can be counted at many times.
type Calendar struct {
	config      *job.Config
	from, until time.Time
	dues        map[rhythm][]int64 // in nanoseconds since 1970, in order
}

// rhythm is everything that the due times of a job depend on.
type rhythm struct {
	schedule string
	every    time.Duration
}

// NewCalendar returns the calendar of the jobs of config for times from from on and before until.
func NewCalendar(config *job.Config, from, until time.Time) *Calendar {
	return &Calendar{config: config, from: from, until: until, dues: map[rhythm][]int64{}}
}

// Clock returns the job whose schedule decides when spec is due: spec itself, or the first job of
// its chain of `after`.
func Clock(config *job.Config, spec *job.Spec) *job.Spec {
	for range config.Jobs { // a chain of `after` is no longer than the file
		parent := config.Job(spec.After)
		if parent == nil || spec.Disabled {
			break
		}
		spec = parent
	}
	return spec
}

// Runs counts the runs of a job that are due later than after and before the calendar's end.
func (c *Calendar) Runs(spec *job.Spec, after time.Time) int {
	spec = Clock(c.config, spec)
	if spec.Disabled || after.Before(c.from) {
		return countDues(spec, after, c.until, c.config.Timezone)
	}
	key := rhythm{spec.Schedule, spec.Every}
	dues, known := c.dues[key]
	if !known {
		for due := spec.Next(c.from, c.config.Timezone); !due.IsZero() && due.Before(c.until); {
			dues = append(dues, due.UnixNano())
			due = spec.Next(due, c.config.Timezone)
		}
		c.dues[key] = dues
	}
	return len(dues) - sort.Search(len(dues), func(i int) bool { return dues[i] > after.UnixNano() })
}

func countDues(spec *job.Spec, after, until time.Time, zone *time.Location) (n int) {
	for due := spec.Next(after, zone); !due.IsZero() && due.Before(until); due = spec.Next(due, zone) {
		n++
	}
	return n
}
