package job

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"outlierd/outlier"
)

// allPages stands for `pages: all` in a purse.
const allPages = -1

// A purse is a small file of one job, with what bears on money. No amount is -1.
type purse struct {
	verb    string // what the job does, in which %s stands for its pages
	price   int    // of a page
	start   int    // of a scan, whose pages are those of its results
	most    int    // pages that a scan's results can have
	pages   int    // 0 if the file does not say, or allPages
	perRun  int
	ofJob   int // per_month of the job
	perDay  int
	ofAll   int // per_month of all jobs
	reserve int
}

// verbsOfMoney is what jobs can buy, at the documented prices.
var verbsOfMoney = []purse{
	{verb: "search: {query: x%s}", price: 2},
	{verb: "related: {title: x%s}", price: 2},
	{verb: "find_channels: {query: x%s}", price: 5},
	{verb: "find_channels: {related_to: UC1234567890abcdefghijkl%s}", price: 5},
	{verb: "trending_formats: {}", price: 1},
	{verb: "scan: {query: x, read: {sort: views%s}}", price: 2, start: 50, most: 25},
	{verb: "scan: {channel_id: UC1234567890abcdefghijkl, mode: standard, read: {sort: views%s}}", price: 2, start: 100, most: 63},
	{verb: "channels: {id: UC1234567890abcdefghijkl}"},
	{verb: "videos: {id: dQw4w9WgXcQ}"},
}

// step is what the job's smallest step costs.
func (p *purse) step() int {
	if p.start == 0 {
		return p.price
	}
	pages := cmp.Or(p.pages, 5)
	if pages == allPages {
		pages = p.most
	}
	return p.start + min(pages, p.most)*p.price
}

// file is the purse as YAML.
func (p *purse) file() string {
	pages := ""
	switch {
	case p.pages == allPages:
		pages = ", pages: all"
	case p.pages > 0:
		pages = fmt.Sprintf(", pages: %d", p.pages)
	}
	text := "version: 1\nservice: {url: \"sim://\"}\n" +
		amounts("budget", "per_day", p.perDay, "per_month", p.ofAll, "reserve", p.reserve) + "jobs:\n  a:\n"
	verb := strings.Replace(p.verb, "%s", pages, 1)
	return text + "    " + verb + "\n" + amounts("    budget", "per_run", p.perRun, "per_month", p.ofJob)
}

// amounts is a mapping of those amounts that there are, or nothing.
func amounts(key string, pairs ...any) string {
	var said []string
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != -1 {
			said = append(said, fmt.Sprintf("%s: %d", pairs[i], pairs[i+1]))
		}
	}
	if said == nil {
		return ""
	}
	return key + ": {" + strings.Join(said, ", ") + "}\n"
}

// fits reports whether a run can do the smallest step, and whether no two amounts
// contradict each other.
func (p *purse) fits() bool {
	for _, most := range []int{p.perRun, p.ofJob, p.perDay, p.ofAll} {
		if most >= 0 && most < p.step() {
			return false
		}
	}
	within := func(amount, most int) bool { return most < 0 || amount <= most }
	if p.reserve >= 0 && (p.reserve >= p.ofAll || p.ofAll-p.reserve < p.step()) {
		return false
	}
	return within(p.perRun, p.ofJob) && within(p.perRun, p.ofAll) && within(p.ofJob, p.ofAll)
}

// pagesOfMoney are numbers of pages around those that a scan can have.
var pagesOfMoney = []int{0, 1, 2, 5, 24, 25, 26, 63, 64, allPages}

// A job is refused if, and only if, a cap can never hold the smallest thing that it
// buys: for a scan that is its price and all of the reading, which a run sets aside
// together. Each cap is tried alone, with just enough and with one credit less.
func TestJobWithUnaffordableStepIsRefused(t *testing.T) {
	for _, p := range verbsOfMoney {
		p.perRun, p.ofJob, p.perDay, p.ofAll, p.reserve = -1, -1, -1, -1, -1
		for _, p.pages = range pagesOfMoney {
			if p.pages != 0 && !strings.Contains(p.verb, "%s") {
				continue
			}
			for _, less := range []int{0, min(1, p.step())} {
				for _, capped := range p.alone(p.step() - less) {
					verdict(t, capped)
				}
			}
		}
	}
}

// alone are the purses that have one cap more, which leaves the job so much.
func (p purse) alone(most int) []purse {
	run, job, day, all, reserved := p, p, p, p, p
	run.perRun, job.ofJob, day.perDay, all.ofAll = most, most, most, most
	reserved.ofAll, reserved.reserve = most+100, 100
	return []purse{run, job, day, all, reserved}
}

// Caps that contradict neither each other nor the smallest step are fine, however
// many there are.
func TestCapsAreJudgedTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { verdict(t, drawPurse(t)) })
}

// verdict compares what is said of a purse with what can be done with it.
func verdict(t rapid.TB, p purse) {
	_, err := Parse("jobs.yaml", []byte(p.file()), nothingSet)
	want := p.fits() && (p.pages != allPages || p.perRun >= 0)
	if (err == nil) != want {
		t.Fatalf("fine is %v, want %v, as the smallest step costs %d:\n%s\n%v", err == nil, want, p.step(), p.file(), err)
	}
}

func drawPurse(t *rapid.T) purse {
	p := rapid.SampledFrom(verbsOfMoney).Draw(t, "verb")
	if strings.Contains(p.verb, "%s") {
		p.pages = rapid.SampledFrom(pagesOfMoney).Draw(t, "pages")
	}
	amount := func(name string, more int) int {
		if rapid.Bool().Draw(t, "no "+name) {
			return -1
		}
		return max(0, p.step()+more+rapid.IntRange(-2, 5).Draw(t, name))
	}
	p.perRun, p.ofJob, p.perDay = amount("per_run", 0), amount("per_month of the job", 2), amount("per_day", 0)
	p.ofAll, p.reserve = amount("per_month", 10), -1
	if rapid.Bool().Draw(t, "reserves") {
		p.reserve = rapid.IntRange(0, 15).Draw(t, "reserve")
	}
	return p
}

// A scan has at most as many pages as its mode can find.
func TestScanModeLimitsPages(t *testing.T) {
	for _, c := range []struct {
		mode       string
		most, want int
	}{
		{outlier.ModeFast, 5, 5}, {outlier.ModeFast, 25, 25}, {outlier.ModeFast, 26, 25}, {outlier.ModeFast, AllPages, 25},
		{outlier.ModeStandard, 26, 26}, {outlier.ModeStandard, 63, 63}, {outlier.ModeStandard, AllPages, 63},
	} {
		if got := (Scan{Mode: c.mode}).Pages(c.most); got != c.want {
			t.Errorf("of a %s scan %d of %d pages are read, want %d", c.mode, got, c.most, c.want)
		}
	}
}

// TestRateLimitFollowsAddress: the simulator has its own, and a real service would refuse calls if its limit
// were quicker than the documented one.
func TestRateLimitFollowsAddress(t *testing.T) {
	for _, c := range []struct{ service, limit, warning string }{
		{`url: "sim://"`, "600/min", ""},
		{`url: "sim://", limit: 1000/min`, "1000/min", ""},
		{`url: "https://service.example", key: "${OUTLIERD_KEY}"`, "10/min", ""},
		{`url: "https://service.example", key: "${OUTLIERD_KEY}", limit: 100/h`, "100/h", ""},
		{`url: "https://service.example", key: "${OUTLIERD_KEY}", limit: 600/min`, "600/min", "service.limit: 600/min is more than the service's limit of 10/min"},
	} {
		config := parse(t, "version: 1\nservice: {"+c.service+"}\nbudget: {per_month: 100}\njobs: {a: {search: {query: tea}}}\n")
		var warned string
		for _, w := range config.Warnings {
			warned += w.Message
		}
		if got := config.Service.Limit.String(); got != c.limit || (warned == "") != (c.warning == "") || !strings.Contains(warned, c.warning) {
			t.Errorf("{%s}: limit %s, warned %q; want %s, %q", c.service, got, warned, c.limit, c.warning)
		}
	}
}
