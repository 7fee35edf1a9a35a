package plan

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// sameZone compares time zones by what they are.
var sameZone = cmp.Comparer(func(a, b *time.Location) bool { return a == b })

// sameQuery compares queries as values.
var sameQuery = cmpopts.EquateComparable(outlier.Query{})

var epoch = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// TestAnyFactsGiveASoundPlan: whatever the facts are, the same ones give the same plan and
// are left alone, what is bought never costs more than the worst case, and a budget share is
// never passed.
func TestAnyFactsGiveASoundPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := anySpec(t)
		facts := anyFacts(t, spec)
		before := *anyCopy(&facts)
		p, err := New(spec, &facts)
		if err != nil {
			t.Fatal(err)
		}
		again, err := New(spec, &facts)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, again, cmp.AllowUnexported(Plan{}), sameZone, sameQuery); diff != "" {
			t.Fatalf("the same facts give another plan (-first +second)\n%s", diff)
		}
		if diff := cmp.Diff(before, facts, sameZone, sameQuery); diff != "" {
			t.Fatalf("planning has changed the facts (-before +after)\n%s", diff)
		}
		checkStored(t, p)
		checkWorstCase(t, spec, p)
		whole := p.Wants(spec.Budget)
		share := outlier.Credits(rapid.Int64Range(0, 200).Draw(t, "share"))
		if share < whole {
			p.Stored.Share = &share
		}
		if got := p.Wants(spec.Budget); got > share || got > whole {
			t.Fatalf("a run that wants %d takes %d of a share of %d", whole, got, share)
		}
		checkWorstCase(t, spec, p)
	})
}

// checkStored: the run's record gives back what was put into it.
func checkStored(t *rapid.T, p *Plan) {
	text, err := json.Marshal(p.Stored)
	if err != nil {
		t.Fatal(err)
	}
	var back Stored
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Stored, back, cmpopts.EquateEmpty(), sameQuery); diff != "" {
		t.Fatalf("the stored plan is another one (-plan +stored)\n%s", diff)
	}
}

// checkWorstCase buys pages in any order, as many as the run may, and compares.
func checkWorstCase(t *rapid.T, spec *job.Spec, p *Plan) {
	lost := rapid.Bool().Draw(t, "answers are lost")
	cost, limit := p.Cost(spec.Budget, Spent{}), p.Stored.CapFor(spec.Budget)
	if cost.Credits > cost.Lost || cost.Lost > limit || cost.Requests < 0 || p.Least() < 0 {
		t.Fatalf("%+v under a cap of %d", cost, limit)
	}
	if least := p.Least(); least <= limit && least > cost.Credits && least > 0 {
		t.Fatalf("the least is %d, and the worst case %d under a cap of %d", least, cost.Credits, limit)
	}
	most, spent, held := cost.Credits, outlier.Credits(0), outlier.Credits(0) // for reading scans
	if lost {
		most = cost.Lost
	}
	wasted, order := false, indices(p.Steps)
	if p.Stored.Scan == nil { // scans are started in their order
		order = rapid.Permutation(order).Draw(t, "order")
	}
	started := map[string]bool{} // scans, by what they look for
	for _, i := range order {
		step := &p.Steps[i]
		if step.Stop != "" {
			continue
		}
		pages, price := p.Stored.PagesOf(step.Ordinal)-step.Next, p.prices[i]
		switch step.Query.Op() {
		case outlier.OpTrendingFormats:
			pages = 1 - step.Next
		case outlier.OpStartScan:
			one := p.itemOf(i)
			each := one.credits()
			scan, joined := p.Stored.Joins[step.Ordinal]
			if spent+held+each > limit || joined && scan == "" && !started[step.Query.Encode()] {
				continue // a scan is started only if reading it fits, too
			}
			started[step.Query.Encode()] = true
			pages, price = p.Stored.ReadPages(), p.facts.Prices.Of(outlier.OpSearch, "")
			held += outlier.Credits(pages) * price
			spent += each - outlier.Credits(pages)*price
		}
		if !wasted && p.mayWaste(step) && pages > 0 {
			pages, wasted = pages+1, true
		}
		pages = rapid.IntRange(0, max(0, min(pages, 500))).Draw(t, "pages")
		for range pages {
			times := 1
			if lost {
				times = rapid.IntRange(1, Attempts).Draw(t, "attempts")
			}
			for range times {
				switch {
				case step.Query.Op() == outlier.OpStartScan && held >= price:
					held, spent = held-price, spent+price
				case spent+held+price <= limit:
					spent += price
				}
			}
		}
	}
	if spent > most {
		t.Fatalf("a run has spent %d of a worst case of %d (%+v under a cap of %d)", spent, most, cost, limit)
	}
}

func indices(steps []Step) []int {
	all := make([]int, len(steps))
	for i := range all {
		all[i] = i
	}
	return all
}

// anySpec is a job of one operation, as every job is.
func anySpec(t *rapid.T) *job.Spec {
	spec := &job.Spec{Name: "any", Terms: job.Terms{Pages: rapid.SampledFrom([]int{0, 1, 2, 5, job.AllPages}).Draw(t, "pages")}}
	if rapid.Bool().Draw(t, "capped") || spec.Pages == job.AllPages {
		spec.Budget.PerRun = new(outlier.Credits(rapid.Int64Range(0, 150).Draw(t, "per_run")))
	}
	spec.MaxRequests = rapid.IntRange(0, 3).Draw(t, "max_requests")
	if rapid.Bool().Draw(t, "seeds stay fresh") {
		spec.SeedsFresh = 7 * 24 * time.Hour
	}
	if rapid.Bool().Draw(t, "enriches") {
		spec.Enrich = []job.Call{{Op: outlier.OpTranscript, Top: rapid.IntRange(0, 50).Draw(t, "top")}, {Op: outlier.OpDetails}}
	}
	return spec
}

// anyFacts are facts about what spec might ask for.
func anyFacts(t *rapid.T, spec *job.Spec) Facts {
	f := Facts{
		Now: epoch, Zone: time.UTC, Prices: outlier.Prices{},
		Paging: map[outlier.Operation]string{}, Bought: map[string]time.Time{},
		Live: map[int]string{}, Queued: rapid.IntRange(0, 9).Draw(t, "queued"),
	}
	op := rapid.SampledFrom([]outlier.Operation{
		outlier.OpSearch, outlier.OpRelated, outlier.OpFindChannels, outlier.OpTrendingFormats, outlier.OpStartScan,
	}).Draw(t, "operation")
	if rapid.Bool().Draw(t, "paging known") {
		f.Paging[PagedBy(op)] = job.PagingPage
	}
	if op == outlier.OpStartScan {
		spec.Scan = &job.Scan{
			Mode:    rapid.SampledFrom([]string{outlier.ModeFast, outlier.ModeStandard}).Draw(t, "mode"),
			PollMin: time.Minute, PollMax: 10 * time.Minute, Deadline: rapid.SampledFrom([]time.Duration{0, time.Hour, 48 * time.Hour}).Draw(t, "deadline"),
		}
	}
	live := rapid.SliceOf(rapid.SampledFrom([]string{"tea", "coffee"})).Draw(t, "live scans")
	for i := range rapid.IntRange(0, 6).Draw(t, "searches") {
		words := rapid.SampledFrom([]string{"tea", "coffee", "milk"}).Draw(t, "words")
		params := url.Values{"query": {words}}
		ask := job.Ask{Queries: []string{words}, Watermark: fmt.Sprint(op, words)}
		switch op {
		case outlier.OpRelated:
			ask.Seeds = []string{words}
		case outlier.OpStartScan:
			params.Set("mode", spec.Scan.Mode)
			ask.Read = outlier.UncheckedQuery(outlier.OpSearch, "sortBy=views")
			if slices.Contains(live, words) {
				f.Live[i] = "scan " + words
			}
		}
		ask.Query = outlier.UncheckedQuery(op, params.Encode())
		if rapid.Bool().Draw(t, "bought") {
			f.Bought[ask.Watermark] = epoch.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "days ago")) * 24 * time.Hour)
		}
		f.Work.Asks = append(f.Work.Asks, ask)
	}
	return f
}

// anyCopy shares nothing with f that planning could change.
func anyCopy(f *Facts) *Facts {
	copied := *f
	copied.Work.Asks = slices.Clone(f.Work.Asks)
	return &copied
}

// TestWorstCaseDoesNotOverflow with the largest numbers that a job file may have.
func TestWorstCaseDoesNotOverflow(t *testing.T) {
	all := item{start: job.MaxCredits, price: job.MaxCredits, pages: job.AllPages}
	if got := ifLost([]item{all, all, all}); got != beyondCaps {
		t.Errorf("three searches for all pages cost %d credits, want %d", got, beyondCaps)
	}
}

// TestExpectedCreditsAreWholePages: a page costs two credits, so one credit buys nothing.
func TestExpectedCreditsAreWholePages(t *testing.T) {
	for average, want := range map[float64]outlier.Credits{0: 0, 0.9: 0, 1: 2, 2.9: 2, 3: 4, 4: 4} {
		if got := RoundToStep(average, 2); got != want {
			t.Errorf("%d credits are expected from an average of %g, want %d", got, average, want)
		}
	}
	c := Cost{Credits: 8, Requests: 12}
	if c.LimitTo(5, 2); c.Credits != 4 || c.Requests != 6 {
		t.Errorf("a cap of 5 lets %+v of 8 credits in 12 requests pass, want 4 in 6", c)
	}
}
