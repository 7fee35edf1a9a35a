package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"outlierd/cmd/outlierd/term"
	"outlierd/sync/engine"
	"outlierd/sync/job"
)

const dearJobs = `
version: 1
service: {url: "sim://", limit: 10/min}
budget: {per_month: 100, confirm_over: 10}
jobs:
  cheap: {search: {query: [tea], pages: 1}, budget: {per_run: 2}}
  dear: {search: {query: [espresso], pages: 2}, budget: {per_run: 12}}
  next: {after: cheap, search: {query: [moka], pages: 2}, budget: {per_run: 14}}
  last: {after: next, search: {query: [brew], pages: 2}, budget: {per_run: 16}}
`

func configOf(t *testing.T, text string) *job.Config {
	t.Helper()
	config, err := job.Parse("/jobs.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestExpensiveManualRunsNeedConfirmation(t *testing.T) {
	t.Parallel()
	config := configOf(t, dearJobs)
	by := func(withAfter bool, names ...string) (todo []jobRun) {
		for _, name := range names {
			todo = append(todo, jobRun{Order: engine.Order{Spec: config.Job(name), Trigger: engine.Manual}, withAfter: withAfter})
		}
		return todo
	}
	for _, test := range []struct {
		name   string
		todo   []jobRun
		most   int64 // --max-credits
		answer string
		asked  string // part of the question; "" if there is none
		goes   bool
	}{
		{"a cheap one", by(false, "cheap"), 0, "", "", true},
		{"a dear one", by(false, "dear"), 0, "y\n", "this may cost more than 10 credits (budget.confirm_over): dear up to 12. Run it? [y/N] ", true},
		{"in capitals", by(false, "dear"), 0, " YES \n", "dear up to 12", true},
		{"a no", by(false, "dear"), 0, "n\n", "dear up to 12", false},
		{"a return", by(false, "dear"), 0, "\n", "dear up to 12", false},
		{"no answer at all", by(false, "dear"), 0, "", "dear up to 12", false},
		{"within less", by(false, "dear"), 11, "y\n", "dear up to 11. ", true},
		{"within the limit", by(false, "dear"), 10, "", "", true},
		{"several", by(false, "cheap", "dear", "next"), 0, "y\n", "this may cost more than 10 credits (budget.confirm_over): dear up to 12, next up to 14.", true},
		{"with what comes after", by(true, "cheap"), 0, "y\n", ": next up to 14, last up to 16.", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			err := withoutState(t.Context(), config, func(p *program) error {
				return approveRuns(t.Context(), p, test.todo, test.most, &term.Asker{In: strings.NewReader(test.answer), Out: &out})
			})
			if (err == nil) != test.goes || err != nil && !errors.Is(err, errDeclined) {
				t.Errorf("error %v, want the run to go on: %v", err, test.goes)
			}
			if test.asked == "" && out.Len() > 0 || !strings.Contains(out.String(), test.asked) {
				t.Errorf("asked %q, want %q", out.String(), test.asked)
			}
		})
	}
}

// TestLargeRunsNeedConfirmationByDefault: without budget.confirm_over, above a tenth of the month and
// never below 20 credits. Without a terminal they are refused as a usage error, with the price and the remedy.
func TestLargeRunsNeedConfirmationByDefault(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		month, pages string
		asked        string
	}{
		{"100", "2", ""}, // 4 credits, 18 if answers are lost
		{"100", "3", "may cost more than 20 credits (a tenth of the month; set budget.confirm_over to change it): coffee up to 24"},
		{"3000", "30", ""},
		{"3000", "500", "may cost more than 300 credits"},
	} {
		config, err := job.Parse("/jobs.yaml", fmt.Appendf(nil, `
version: 1
service: {url: "https://service.example", key: "${OUTLIERD_KEY}"}
budget: {per_month: %s}
jobs:
  coffee: {search: {query: [espresso], pages: %s}}
`, test.month, test.pages), func(string) (string, bool) { return "secret", true })
		if err != nil {
			t.Fatal(err)
		}
		err = withoutState(t.Context(), config, func(p *program) error {
			var out bytes.Buffer
			err := approveRuns(t.Context(), p, byHand(config.Jobs), 0, &term.Asker{In: strings.NewReader("n\n"), Out: &out})
			if asked := out.String(); !strings.Contains(asked, test.asked) || (asked == "") != (test.asked == "") || (err == nil) != (asked == "") {
				t.Errorf("%s pages of %s a month: asked %q, error %v, want %q",
					test.pages, test.month, asked, err, test.asked)
			}
			return approveRuns(t.Context(), p, byHand(config.Jobs), 0, nil)
		})
		switch {
		case test.asked == "" && err == nil:
		case exitCode(t.Context(), err) != exitUsage || !strings.Contains(err.Error(), test.asked) || !strings.Contains(err.Error(), "--yes"):
			t.Errorf("without a terminal: error %v, want exit code 2, %q and the remedy", err, test.asked)
		}
	}
}

// TestConfirmationNeedsTerminal for input and output, not a pipe.
func TestConfirmationNeedsTerminal(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, world := range []world{{in: strings.NewReader("y\n"), err: &bytes.Buffer{}}, {in: r, err: w}} {
		g := &globals{world: world}
		if g.asker() != nil {
			t.Errorf("confirmation is requested through %T and %T, want none", world.in, world.err)
		}
	}
}

// withoutState calls work with a program that has an empty state.
func withoutState(ctx context.Context, config *job.Config, work func(*program) error) (err error) {
	p := &program{Engine: &engine.Engine{Config: config, IDs: seedsOnce(config)}}
	defer func() { err = errors.Join(err, p.Close()) }()
	if err := p.temporaryStore(ctx); err != nil {
		return err
	}
	return work(p)
}
