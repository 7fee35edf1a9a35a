package engine

import (
	"archive/zip"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"outlierd/internal/testenv"
	"outlierd/sync/job"
)

// calendarDays returns a period. With -long it contains each clock change of a year, and some of them twice, and
// otherwise at least one.
func calendarDays() int {
	if *long {
		return 400
	}
	return 35
}

// TestCronFollowsEveryTimeZone: over days with clock changes, and with restarts and edits of the job file at
// random times, jobs with random cron expressions have runs for exactly the due times that an enumeration of
// all minutes finds. It uses one random time zone, or all of them with -long: zones whose clocks change at
// the same times count as one.
func TestCronFollowsEveryTimeZone(t *testing.T) {
	t.Parallel()
	random := testenv.Random(t)
	var began time.Time
	var zones []*time.Location
	for len(zones) == 0 { // in some weeks no zone changes its clocks
		began = time.Date(2000+random.IntN(36), time.January, 1+random.IntN(365), 0, 0, 0, 0, time.UTC)
		zones = changingZones(t, random, began)
	}
	if !*long {
		zones = zones[:1]
	}
	t.Logf("%d time zones from %s on", len(zones), began.Format(time.DateOnly))
	for _, zone := range zones {
		t.Run(zone.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := &calendar{random: testenv.Random(t), zone: zone}
				c.play(t, began)
			})
		})
	}
}

// changingZones returns time zones whose clocks change in the days after from, in random order: one for
// each set of times at which they change.
func changingZones(t *testing.T, random *rand.Rand, from time.Time) (zones []*time.Location) {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	all, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	known, to := map[string]bool{}, from.AddDate(0, 0, calendarDays())
	for _, i := range random.Perm(len(all.File)) {
		name := all.File[i].Name
		zone, err := time.LoadLocation(name)
		if err != nil || strings.HasSuffix(name, "/") {
			continue
		}
		var changes []string
		for _, end := from.In(zone).ZoneBounds(); !end.IsZero() && end.Before(to); _, end = end.ZoneBounds() {
			changes = append(changes, end.Format(time.RFC3339))
		}
		if key := strings.Join(changes, " "); key != "" && !known[key] {
			known[key] = true
			zones = append(zones, zone)
		}
	}
	return zones
}

// calendar is a random job file in a time zone, with a job for each rule of catch_up.
type calendar struct {
	random *rand.Rand
	zone   *time.Location
	crons  map[job.CatchUp][2]cron // lists of schedules
	quiet  map[job.CatchUp]quiet
	ups    []span
}

// quiet are quiet hours, in minutes of a day; none if both are equal.
type quiet struct{ from, to int }

func (q quiet) String() string {
	if q.from == q.to {
		return "[]"
	}
	return fmt.Sprintf("[%02d:%02d-%02d:%02d]", q.from/60, q.from%60, q.to/60, q.to%60)
}

// shows reports whether a wall clock time is within the quiet hours.
func (q quiet) shows(at time.Time) bool {
	minute := at.Hour()*60 + at.Minute()
	if q.from <= q.to {
		return q.from <= minute && minute < q.to
	}
	return q.from <= minute || minute < q.to
}

func (c *calendar) play(t *testing.T, began time.Time) {
	time.Sleep(time.Until(began) + c.some(time.Hour))
	from := time.Now()
	c.crons, c.quiet = map[job.CatchUp][2]cron{}, map[job.CatchUp]quiet{}
	file := fmt.Sprintf("version: 1\ntimezone: %s\nservice: {url: \"sim://\"}\njobs:\n", c.zone)
	for _, rule := range []job.CatchUp{job.CatchUpAll, job.CatchUpLatest, job.CatchUpNone} {
		c.crons[rule] = [2]cron{c.someCron(from), c.someCron(from)}
		c.quiet[rule] = []quiet{{}, {1, 150}, {120, 200}, {1320, 360}, {1410, 135}}[c.random.IntN(5)]
		file += fmt.Sprintf("  %[1]s: {schedule: [%q, %q], quiet: %s, catch_up: %[1]s, channels: {id: {file: nothing.txt}}}\n",
			rule, c.crons[rule][0].String(), c.crons[rule][1].String(), c.quiet[rule])
	}
	w := newWorkshop(t, "version: 1\nservice: {url: \"sim://\"}\njobs: {any: {search: {query: tea}}}\n")
	w.bare = true
	if err := os.WriteFile(filepath.Join(w.dir, "nothing.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.use(file)
	w.withSinks(func(e *Engine) { w.see(e, "all", "latest", "none") })
	end := from.AddDate(0, 0, calendarDays())
	for time.Now().Before(end) {
		up := span{time.Now(), time.Now().Add(c.some(time.Hour, 3*time.Hour, 3*time.Hour, 3*time.Hour, 3*time.Hour, day))}
		// The process is up for most clock changes and rarely otherwise, because a day of idling takes a
		// thousand steps.
		next := up.to.Add(c.some(time.Minute, 6*time.Hour, 30*day))
		if _, change := up.from.In(c.zone).ZoneBounds(); !change.IsZero() && change.Before(next) && c.random.IntN(4) > 0 {
			if next = change.Add(-c.some(4 * time.Hour)); next.Before(up.to) {
				up.to = change.Add(c.some(4 * time.Hour))
				next = up.to.Add(c.some(time.Minute, 6*time.Hour))
			}
		}
		w.reloads(up.to.Sub(up.from), c.edits(up, file))
		c.ups = append(c.ups, up)
		time.Sleep(time.Until(next))
	}
	for time.Now().In(c.zone).Hour() != 12 { // not in quiet hours, so that what was missed runs
		time.Sleep(15 * time.Minute)
	}
	last := span{time.Now(), time.Now().Add(time.Minute)}
	c.ups = append(c.ups, last)
	got := map[string][]string{}
	for _, run := range w.serve(time.Minute) {
		got[run.Job] = append(got[run.Job], run.Due.In(c.zone).Format(time.RFC3339))
	}
	for rule, list := range c.crons {
		var want []string
		end := c.quietEnds(rule, from.Add(-day), last.to)
		for _, due := range c.expected(rule, c.instants(list, from, last.to, end), end) {
			want = append(want, due.Format(time.RFC3339))
		}
		slices.Sort(got[string(rule)])
		slices.Sort(want)
		if diff := gocmp.Diff(want, got[string(rule)]); diff != "" {
			t.Errorf("%q, quiet: %s, with catch_up: %s has runs (-want +got):\n%s", list, c.quiet[rule], rule, diff)
		}
	}
}

// edits returns versions of the job file that a process loads at random times while it is up, half of
// them at the beginning of a minute, like due times. The schedules stay the same.
func (c *calendar) edits(up span, file string) map[time.Duration]string {
	at := up.from.Add(c.some(up.to.Sub(up.from)))
	if c.random.IntN(2) == 0 {
		at = at.Truncate(time.Minute)
	}
	if !at.After(up.from) || c.random.IntN(3) > 0 {
		return nil
	}
	edit := []string{"", "  other: {channels: {id: {file: nothing.txt}}}\n", "budget: {per_day: 10}\n"}[c.random.IntN(3)]
	return map[time.Duration]string{at.Sub(up.from): file + edit}
}

// some returns a random duration up to one of the given ones.
func (c *calendar) some(most ...time.Duration) time.Duration {
	return time.Duration(c.random.Int64N(int64(most[c.random.IntN(len(most))])))
}

// quietEnds enumerates all minutes and returns for each that is quiet when it is not any more. A minute is quiet if
// clocks show a time of the quiet hours, for the first time.
func (c *calendar) quietEnds(rule job.CatchUp, from, to time.Time) func(time.Time) time.Time {
	first, ends := from.Truncate(time.Minute), []time.Time{}
	latest := time.Time{}
	for at := first; at.Before(to.Add(2 * day)); at = at.Add(time.Minute) {
		_, offset := at.In(c.zone).Zone()
		if shown := at.UTC().Add(time.Duration(offset) * time.Second); shown.After(latest) {
			latest = shown
		}
		if ends = append(ends, at); c.quiet[rule].shows(latest) {
			ends[len(ends)-1] = time.Time{}
		}
	}
	for i := len(ends) - 1; i > 0; i-- {
		if ends[i-1].IsZero() {
			ends[i-1] = ends[i]
		}
	}
	return func(at time.Time) time.Time {
		if end := ends[at.Sub(first)/time.Minute]; end.After(at) {
			return end.In(c.zone)
		}
		return at
	}
}

// instants returns the due times of a list of expressions outside quiet hours, given when they end: those within them
// are moved to their end, unless another one follows on the same day.
func (c *calendar) instants(list [2]cron, from, to time.Time, end func(time.Time) time.Time) (dues []time.Time) {
	var all []time.Time
	for _, x := range list {
		all = append(all, x.instants(from.Add(-day), to.Add(day), c.zone)...) // quiet hours may have begun before from
	}
	for _, due := range all {
		moved := end(due)
		follows := func(own time.Time) bool {
			return !own.Before(moved) && end(own).Equal(own) && own.In(c.zone).Format(time.DateOnly) == moved.In(c.zone).Format(time.DateOnly)
		}
		if moved.After(from) && moved.Before(to) && (moved.Equal(due) || !slices.ContainsFunc(all, follows)) {
			dues = append(dues, moved)
		}
	}
	slices.SortFunc(dues, time.Time.Compare)
	return slices.CompactFunc(dues, time.Time.Equal)
}

// expected returns the due times that must have a run: those while the process was up, and of those
// missed before a start, the ones that the rule selects. A start in quiet hours counts as one at their end.
func (c *calendar) expected(rule job.CatchUp, dues []time.Time, end func(time.Time) time.Time) (kept []time.Time) {
	if rule == job.CatchUpAll {
		return dues
	}
	before := func(at time.Time) (some []time.Time) {
		n := 0
		for n < len(dues) && dues[n].Before(at) {
			n++
		}
		some, dues = dues[:n], dues[n:]
		return some
	}
	for _, up := range c.ups {
		start := up.from
		if up.from = end(start); !up.from.Before(up.to) {
			continue
		}
		if up.from.After(start) {
			start = up.from.Add(1) // what is due at their end comes with what was missed
		}
		if missed := before(start); len(missed) > 0 {
			last := missed[len(missed)-1]
			if rule == job.CatchUpLatest || up.from.Sub(last) <= missedAfter {
				kept = append(kept, last)
			}
		}
		kept = append(kept, before(up.to)...)
	}
	return kept
}

// cron is a cron expression, as the values of its fields; nil stands for *.
type cron struct{ minutes, hours, days, months, weekdays []int }

// someCron returns a random expression with at most some hundred due times, most of them in the hours in
// which clocks change.
func (c *calendar) someCron(from time.Time) cron {
	pick := func(fields ...[]int) []int { return fields[c.random.IntN(len(fields))] }
	for {
		x := cron{
			minutes:  pick([]int{0}, []int{30}, []int{c.random.IntN(60)}, []int{15, 45}, []int{0, 20, 40}),
			hours:    pick(nil, []int{0}, []int{1, 2, 3}, []int{2}, []int{c.random.IntN(24)}, []int{0, 6, 12, 18}),
			days:     pick(nil, nil, []int{1}, []int{8, 15, 31}, []int{25, 26, 27, 28, 29, 30, 31}),
			months:   pick(nil, nil, []int{3, 10}, []int{4, 9, 11}),
			weekdays: pick(nil, nil, []int{0}, []int{1, 4}, []int{0, 6}),
		}
		if n := len(x.instants(from, from.AddDate(0, 0, calendarDays()), c.zone)); n > 0 && n < 250 {
			return x
		}
	}
}

func (x cron) String() string {
	var fields []string
	for _, values := range [][]int{x.minutes, x.hours, x.days, x.months, x.weekdays} {
		var texts []string
		for _, v := range values {
			texts = append(texts, strconv.Itoa(v))
		}
		fields = append(fields, cmp.Or(strings.Join(texts, ","), "*"))
	}
	return strings.Join(fields, " ")
}

// shows reports whether the expression matches a wall clock time.
func (x cron) shows(at time.Time) bool {
	in := func(values []int, v int) bool { return values == nil || slices.Contains(values, v) }
	day, weekday := in(x.days, at.Day()), in(x.weekdays, int(at.Weekday()))
	either := x.days != nil && x.weekdays != nil && (day || weekday)
	return in(x.minutes, at.Minute()) && in(x.hours, at.Hour()) && in(x.months, int(at.Month())) && (day && weekday || either)
}

// instants enumerates all minutes and returns the due times. An expression that names hours is due at the
// first occurrence of a wall clock time, and for skipped times at the moment of the change. One for every
// hour follows elapsed time.
func (x cron) instants(from, to time.Time, zone *time.Location) (dues []time.Time) {
	var offset int
	var change time.Time                    // when the offset changes next
	shown := func(at time.Time) time.Time { // as if it were UTC
		if !at.Before(change) {
			_, offset = at.In(zone).Zone()
			if _, change = at.In(zone).ZoneBounds(); change.IsZero() {
				change = to
			}
		}
		return at.UTC().Add(time.Duration(offset) * time.Second)
	}
	at := from.Truncate(time.Minute)
	latest := shown(at)
	for at = at.Add(time.Minute); at.Before(to); at = at.Add(time.Minute) {
		now := shown(at)
		first := now
		if x.hours != nil {
			first = latest.Add(time.Minute)
		}
		for wall := first; !wall.After(now); wall = wall.Add(time.Minute) {
			if x.shows(wall) {
				dues = append(dues, at.In(zone))
				break
			}
		}
		if now.After(latest) {
			latest = now
		}
	}
	return dues
}
