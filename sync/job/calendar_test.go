package job

import (
	"strings"
	"testing"
)

// TestDisabledJobStopsItsChain: a job comes after another one that is disabled, which comes after one with a
// schedule. Only the last one is due, and only it costs anything.
func TestDisabledJobStopsItsChain(t *testing.T) {
	const file = head + `jobs:
  root: {every: 12h, search: {query: tea}}
  link: {after: root, enabled: false, search: {query: tea}}
  leaf: {after: link, search: {query: tea}}
  twig: {after: root, search: {query: tea}, budget: {per_month: 20}}
`
	config := parse(t, file)
	month := MonthOf(config)
	for name, want := range map[string]struct {
		chain string
		by    string
		runs  int
	}{
		"root": {"root", "root", 62}, "link": {"link root", "link", 0},
		"leaf": {"leaf link root", "link", 0}, "twig": {"twig root", "root", 62},
	} {
		spec := config.Job(name)
		var chain []string
		for of := range config.Chain(spec) {
			chain = append(chain, of.Name)
		}
		if got := strings.Join(chain, " "); got != want.chain {
			t.Errorf("the chain of %s is %s, want %s", name, got, want.chain)
		}
		if by := config.ScheduledBy(spec).Name; by != want.by {
			t.Errorf("%s is scheduled by %s, want %s", name, by, want.by)
		}
		if runs := month.Runs(spec, month.from); runs != want.runs || len(month.Dues(spec)) != runs {
			t.Errorf("%s has %d runs and %d due times in a month, want %d", name, runs, len(month.Dues(spec)), want.runs)
		}
		if dues := month.Dues(spec); len(dues) > 0 && month.Runs(spec, dues[0]) != want.runs-1 {
			t.Errorf("%s has %d runs after its first", name, month.Runs(spec, dues[0]))
		}
	}
	for i, credits := range config.cheapestMonth() {
		want := 4 // two searches of root
		if i < 5 {
			want = 8 // and two of twig, until its cap is spent
		}
		if int(credits) != want {
			t.Errorf("day %d costs %d credits, want %d", i+1, credits, want)
		}
	}
}
