package ledger

import (
	"fmt"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/sync/store"
)

// Scope is what a cap applies to.
type Scope string

// The scopes. Each has periods of its own; see [Periods].
const (
	ScopeRun      Scope = "run"       // one run
	ScopeJobMonth Scope = "job_month" // one job, or what no job buys, in one billing cycle
	ScopeJobDay   Scope = "job_day"   // what assistants buy on one day
	ScopeDay      Scope = "day"       // all jobs on one day
	ScopeMonth    Scope = "month"     // all jobs in one billing cycle
)

// Cap is an upper bound on the credits held in one period of a scope: those of every attempt
// without proof of a refund.
type Cap struct {
	Scope  Scope           `json:"scope"`
	Period string          `json:"period"` // see [Periods]
	Max    outlier.Credits `json:"max"`

	// Reserve is the part of the budget that Max excludes, for the record.
	Reserve outlier.Credits `json:"reserve,omitempty"`
}

// Period is one period of a scope: the key under which its credits add up.
type Period struct {
	Scope Scope
	Key   string
}

// Periods returns all periods that a paid call counts for, with or without a cap, so that a cap
// that is set later includes earlier spending. A call outside any run counts for no run and no
// job.
func Periods(run, job, day, cycle string) []Period {
	all := []Period{{ScopeDay, day}, {ScopeMonth, cycle}}
	if job != "" {
		all = append(all, Period{ScopeJobMonth, JobCycle(job, cycle)})
	}
	if strings.HasPrefix(job, Assistants) {
		all = append(all, Period{ScopeJobDay, JobCycle(job, day)})
	}
	if run != "" {
		all = append(all, Period{ScopeRun, run})
	}
	return all
}

// JobCycle returns the period key of a job in a billing cycle, or on a day: "weekly-ideas/2026-11-14".
func JobCycle(job, cycle string) string { return job + "/" + cycle }

// CutJobCycle is the inverse of [JobCycle]. The key of a cycle contains no slash.
func CutJobCycle(key string) (job, cycle string) {
	slash := strings.LastIndexByte(key, '/')
	return key[:max(slash, 0)], key[slash+1:]
}

// Exceeded is the error of a purchase that would exceed a cap.
type Exceeded struct {
	Cap    Cap
	Held   outlier.Credits // what the period holds already
	Bought outlier.Credits // bought in addition, which raises the limit above the cap
	Price  outlier.Credits // what the purchase would add
	Hold   outlier.Credits // what it would also set aside, for the calls that must follow it
}

func (e *Exceeded) Error() string {
	cost := fmt.Sprintf("this call costs %d", e.Price)
	switch {
	case e.Price == 0:
		cost = fmt.Sprintf("reading the scan may cost %d", e.Hold)
	case e.Hold > 0:
		cost += fmt.Sprintf(", with %d more for the calls that must follow", e.Hold)
	}
	bought := ""
	if e.Bought > 0 {
		bought = fmt.Sprintf(" (plus %d bought in addition)", e.Bought)
	}
	return fmt.Sprintf("%s is reached: %d of %d credits%s are held and %s; %s",
		e.Cap, e.Held, e.Cap.Max, bought, cost, e.Cap.remedy())
}

// String describes the cap for people, by its key in jobs.yaml.
func (c Cap) String() string {
	switch c.Scope {
	case ScopeRun:
		return "the run's cap (budget.per_run of its job, or --max-credits)"
	case ScopeJobMonth:
		job, cycle := CutJobCycle(c.Period)
		if strings.HasPrefix(job, ByHand) {
			return fmt.Sprintf("the cap of one-off requests for the billing cycle from %s (budget.by_hand)", cycle)
		}
		return fmt.Sprintf("the job's cap for the billing cycle %s (budget.per_month of the job)", c.Period)
	case ScopeJobDay:
		_, day := CutJobCycle(c.Period)
		return fmt.Sprintf("the cap of assistants for the day %s (mcp.budget.per_day)", day)
	case ScopeDay:
		return fmt.Sprintf("the cap for the day %s (budget.per_day)", c.Period)
	case ScopeMonth:
		return fmt.Sprintf("the cap for the billing cycle from %s (budget.per_month less budget.reserve)",
			c.Period)
	}
	return fmt.Sprintf("the cap %s %s", c.Scope, c.Period)
}

func (c Cap) remedy() string {
	switch c.Scope {
	case ScopeRun:
		return "raise the cap, or let the next run start again"
	case ScopeDay, ScopeJobDay:
		return "raise the cap, or wait for the next day"
	}
	return "raise the cap, or wait for the next billing cycle"
}

// Day returns the key of the day that t falls on in loc: "2026-11-21".
func Day(t time.Time, loc *time.Location) string {
	return t.In(loc).Format(time.DateOnly)
}

// Days returns how many days of loc have a part between two instants.
func Days(from, to time.Time, loc *time.Location) (n int) {
	for ; from.Before(to); n++ {
		year, month, day := from.In(loc).Date()
		from = beginningOf(year, month, day+1, loc)
	}
	return n
}

// Cycle returns the key of the billing cycle that t falls in, the day on which the cycle began:
// "2026-11-14". A cycle begins on the given day of the month, or on the month's last day if the
// month is shorter.
func Cycle(t time.Time, loc *time.Location, day int) string {
	from, _ := CycleBounds(t, loc, day)
	return from.Format(time.DateOnly)
}

// CycleBounds returns when the billing cycle of t began and when the next one begins. A day below
// 1 counts as 1, and one above 31 as 31.
func CycleBounds(t time.Time, loc *time.Location, day int) (from, to time.Time) {
	year, month, _ := t.In(loc).Date()
	from, to = renewalIn(year, month, loc, day), renewalIn(year, month+1, loc, day)
	if t.Before(from) {
		from, to = renewalIn(year, month-1, loc, day), from
	}
	return from, to
}

// renewalIn returns when a cycle begins in the given month.
func renewalIn(year int, month time.Month, loc *time.Location, day int) time.Time {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	return beginningOf(year, month, min(max(day, 1), last), loc)
}

// beginningOf returns the first instant of a day. That is not 00:00 if clocks are set forward at
// midnight, and it is the first of two if they are set back to midnight.
func beginningOf(year int, month time.Month, day int, loc *time.Location) time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, loc)
	date := time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	if Day(t, loc) < date {
		_, t = t.ZoneBounds()
	} else if before := t.Add(-time.Nanosecond); Day(before, loc) == date {
		hour, minute, second := before.Clock()
		t = t.Add(-time.Duration(3600*hour+60*minute+second+1) * time.Second)
	}
	return t
}

// Bounds returns when a day or a billing cycle begins and when the next one begins, by its key in
// [Periods]. If the calendar now has another cycle on that date, it returns the bounds of that
// cycle. For a run both are zero.
func (p Period) Bounds(loc *time.Location, renews int) (from, to time.Time, err error) {
	key := p.Key
	switch p.Scope {
	case ScopeRun:
		return from, to, nil
	case ScopeJobMonth, ScopeJobDay:
		_, key = CutJobCycle(key)
	}
	date, err := time.Parse(time.DateOnly, key)
	if err != nil {
		return from, to, fmt.Errorf("there is no period %q of the scope %s: %w", p.Key, p.Scope, err)
	}
	year, month, day := date.Date()
	from = beginningOf(year, month, day, loc)
	if p.Scope == ScopeDay || p.Scope == ScopeJobDay {
		return from, beginningOf(year, month, day+1, loc), nil
	}
	from, to = CycleBounds(from, loc, renews)
	return from, to, nil
}

// period is a period as the database knows it.
type period struct {
	Period              // a job's under the name of its account
	account      string // of the job
	begins, ends int64  // 0 for a run
}

// periodKey returns the key and the bounds of a period in the database.
func (l *Ledger) periodKey(tx *store.Tx, p Period) (period, error) {
	known := period{Period: p}
	if p.Scope == ScopeJobMonth || p.Scope == ScopeJobDay {
		job, cycle := CutJobCycle(p.Key)
		account, err := accountOf(tx, job)
		if err != nil {
			return known, err
		}
		if p.Scope == ScopeJobMonth && account == Assistants {
			account = ByHand
		}
		known.account, known.Key = account, JobCycle(account, cycle)
	}
	from, to, err := p.Bounds(l.location, l.renews)
	known.begins, known.ends = store.Micros(from), store.Micros(to)
	if err != nil || p.Scope == ScopeRun {
		return known, err
	}
	// Spending dated in the future counts as now: the present period reaches up to it.
	if now := store.Micros(l.clock.Now()); known.begins <= now && now < known.ends {
		newest, err := newestCounted(tx)
		known.ends = max(known.ends, store.Micros(newest)+1)
		return known, err
	}
	return known, nil
}

// within returns the condition for what counts for a period, and its arguments.
func (p period) within() (where string, args []any) {
	if p.Scope == ScopeRun {
		return `run = ?1`, []any{p.Key}
	}
	if p.account != "" {
		return `account IN (?3, iif(?3 = 'once:', 'once:mcp:', ?3)) AND counts_at >= ?1 AND counts_at < ?2`,
			[]any{p.begins, p.ends, p.account}
	}
	return `counts_at >= ?1 AND counts_at < ?2`, []any{p.begins, p.ends}
}
