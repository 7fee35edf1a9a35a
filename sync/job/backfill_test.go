package job

import (
	"strings"
	"testing"
	"time"

	"outlierd/outlier"
)

func TestBackfillWindowsFollowCalendar(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	config, err := Parse("jobs.yaml", []byte(head+`
jobs:
  coffee: {search: {query: a, where: {published_at: last 30d, z_score: 2..}}, budget: {per_run: 4}}
`), nothingSet)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, each, want string }{
		{"2026-01-15", "2026-03-10", "month", "2026-03-01T00:00:00 2026-03-10T23:59:59, 2026-02-01T00:00:00 2026-02-28T23:59:59, 2026-01-15T00:00:00 2026-01-31T23:59:59"},
		{"2026-03-25", "2026-03-30", "week", "2026-03-30T00:00:00 2026-03-30T23:59:59, 2026-03-25T00:00:00 2026-03-29T23:59:59"}, // an hour shorter
		{"2026-10-24", "2026-10-25", "day", "2026-10-25T00:00:00 2026-10-25T23:59:59, 2026-10-24T00:00:00 2026-10-24T23:59:59"},  // an hour longer
		{"2026-01-01T12:00Z", "2026-01-01T14:30Z", "month", "2026-01-01T13:00:00 2026-01-01T15:30:00"},
	} {
		spec, err := config.Job("coffee").With(Overrides{Backfill: &Backfill{c.from, c.to, c.each, 20}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for from, to := range spec.Backfill.Windows(berlin) {
			const form = "2006-01-02T15:04:05"
			got = append(got, from.In(berlin).Format(form)+" "+to.In(berlin).Format(form))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s..%s by %s is\n%s, want\n%s", c.from, c.to, c.each, got, c.want)
		}
		if spec.Backfill.Since || !spec.Overridden || *spec.Budget.PerRun != 20 || must(t, &spec, nothingKnown()).Asks[0].Query.Params().Encode() != "query=a&zScoreFrom=2" {
			t.Errorf("the backfill is %+v", spec)
		}
	}
}

func TestInvalidBackfillIsRefused(t *testing.T) {
	config, err := Parse("jobs.yaml", []byte(head+`
jobs:
  coffee: {search: {query: a}}
  rivals: {channels: {id: UC1234567890abcdefghijkl}}
  niche: {scan: {query: a}}
`), nothingSet)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		job, from, to, each string
		most                outlier.Credits
		want                string
	}{
		{"coffee", "2026-02-30", "2026-03-10", "month", 2, "--from: the date \"2026-02-30\" does not exist"},
		{"coffee", "2026-02-01", "soon", "month", 2, `--to: "soon" is neither a date`},
		{"coffee", "2026-02-02", "2026-02-01", "month", 2, "--to 2026-02-01 is before --from 2026-02-02"},
		{"coffee", "2026-02-01", "2026-02-01", "year", 2, "--each must be month, week or day, got year"},
		{"coffee", "2026-02-01", "2026-02-01", "day", 0, "--max-credits must be from 1 to 1000000000, got 0"},
		{"coffee", "2026-02-01", "2026-02-01", "day", 1_000_000_001, "--max-credits must be from 1 to 1000000000, got 1000000001"},
		{"rivals", "2026-02-01", "2026-02-01", "day", 2, "this is one of channels"},
		{"niche", "2026-02-01", "2026-02-01", "day", 2, "this is one of scan"},
	} {
		if _, err := config.Job(c.job).With(Overrides{Backfill: &Backfill{c.from, c.to, c.each, c.most}}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v gives %v", c, err)
		}
	}
	a, err1 := config.Job("coffee").With(Overrides{Backfill: &Backfill{"2026-01-01", "2026-02-01", "month", 2}})
	b, err2 := config.Job("coffee").With(Overrides{Backfill: &Backfill{"2026-01-01", "2026-02-01", "month", 9}})
	c, err3 := config.Job("coffee").With(Overrides{Backfill: &Backfill{"2026-01-01", "2026-02-02", "month", 2}})
	if err1 != nil || err2 != nil || err3 != nil || a.Request != b.Request || a.Request == c.Request || a.Request == config.Job("coffee").Request {
		t.Errorf("a backfill is told by its dates and not by its cap: %s %s %s (%v %v %v)", a.Request, b.Request, c.Request, err1, err2, err3)
	}
	if a.ReuseFor != 30*24*time.Hour {
		t.Errorf("pages are reused for %v", a.ReuseFor)
	}
}
