package job

import (
	"iter"
	"slices"
	"time"
)

// Chain yields a job, the one that it comes after, and so on up to the one that comes after none.
func (c *Config) Chain(spec *Spec) iter.Seq[*Spec] {
	return func(yield func(*Spec) bool) {
		for range len(c.Jobs) + 1 { // a file with a cycle is refused, but is checked in part before that
			if spec == nil || !yield(spec) {
				return
			}
			spec = c.Job(spec.After)
		}
	}
}

// ScheduledBy returns the job whose schedule decides when spec is due: the last of its chain. A job is never
// due if one of its chain is disabled, and that one is returned.
func (c *Config) ScheduledBy(spec *Spec) *Spec {
	for spec = range c.Chain(spec) {
		if spec.Disabled {
			break
		}
	}
	return spec
}

// Calendar has the due times of the jobs of a file within a period. Those of a job are computed once, so that they can
// be counted at many times.
type Calendar struct {
	config      *Config
	from, until time.Time
	dues        map[*Spec][]time.Time
}

// NewCalendar returns the calendar of the jobs of a file for times after from and before until.
func NewCalendar(config *Config, from, until time.Time) *Calendar {
	return &Calendar{config: config, from: from, until: until, dues: map[*Spec][]time.Time{}}
}

// MonthDays is the number of days of [MonthOf].
const MonthDays = 31

// MonthOf returns the calendar of a billing cycle that does not depend on today's date: from July to August,
// in which no clock changes.
func MonthOf(config *Config) *Calendar {
	from := time.Date(2026, time.July, config.Budget.Renews, 0, 0, 0, 0, config.Timezone)
	return NewCalendar(config, from.Add(-time.Second), from.AddDate(0, 0, MonthDays))
}

// maxDues limits the due times of a job: one that is due every minute has 44,640 in a month.
const maxDues = 45_000

// Dues returns when a job is due, or the job whose runs it follows.
func (c *Calendar) Dues(spec *Spec) []time.Time {
	if spec = c.config.ScheduledBy(spec); spec.Disabled {
		return nil
	}
	dues, known := c.dues[spec]
	if !known {
		due := spec.Next(c.from, c.config.Timezone)
		for ; !due.IsZero() && due.Before(c.until) && len(dues) < maxDues; due = spec.Next(due, c.config.Timezone) {
			dues = append(dues, due)
		}
		c.dues[spec] = dues
	}
	return dues
}

// Runs counts the due times of a job that are later than after.
func (c *Calendar) Runs(spec *Spec, after time.Time) int {
	dues := c.Dues(spec)
	past, found := slices.BinarySearchFunc(dues, after, time.Time.Compare)
	if found {
		past++
	}
	return len(dues) - past
}

// Purchases returns the due times of those of the last runs of a job that buy something: not again what was bought at a
// time, or by a run before, while it is fresh.
func (c *Calendar) Purchases(spec *Spec, runs int, bought time.Time, fresh time.Duration) (all []time.Time) {
	dues := c.Dues(spec)
	for _, due := range dues[len(dues)-runs:] {
		if !bought.After(FreshSince(due, fresh)) {
			all, bought = append(all, due), due
		}
	}
	return all
}
