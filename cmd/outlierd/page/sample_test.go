package page

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/marks"
	"outlierd/sync/plan"
	"outlierd/sync/runs"
)

// samplePages are the pages of which .ci/browser has stored pictures.
var samplePages = []string{"/", "/found?as=table", "/videos/v01", "/channels/UC1", "/niches", "/now", "/money", "/picked?v=v01&v=v02", "/do/run?job=coffee"}

// sample returns a site whose pages look the same whenever they are opened, but for dates.
func sample(t *testing.T) *Site {
	now := time.Now().UTC().Truncate(24 * time.Hour).Add(9 * time.Hour)
	ago := func(days int) time.Time { return now.AddDate(0, 0, -days) }
	n := func(n int64) *int64 { return &n }
	x := func(n float64) *float64 { return &n }
	titles := []string{"I pulled 100 shots on a $40 espresso machine", "Moka pot at 3,000 metres", "My grandmother’s moka pot trick that baristas get wrong",
		"The espresso machine that broke my marriage", "We blind-tasted 40 supermarket beans"}
	var cards []Card
	var uploads []Card
	for i := range 12 {
		ratio := 64 / float64(i+1)
		c := Card{ID: fmt.Sprintf("v%02d", i+1), Title: titles[i%len(titles)], Link: "https://youtu.be/v", ChannelID: "UC1", Channel: "Cheap Espresso Club of Trieste",
			Kind: "video", Language: "en", Seconds: n(int64(100 * (i + 3))), Views: n(int64(389_000 / (i + 1))), Subscribers: n(41_200),
			Ratio: &ratio, Median: x(1.5 * ratio), Score: x(ratio / 6), Gain: x(22_100 / float64(i+1)), OneHit: i%4 == 1,
			Published: ago(9 + 5*i), Found: ago(i), Topics: []string{"home espresso", "moka pot"}, Mark: marks.Mark{Starred: i == 2}}
		cards = append(cards, c)
		uploads = append(uploads, c)
	}
	curve := func(to int64) (all []Point) {
		for i := range 12 {
			all = append(all, Point{ago(24 - 2*i), to * int64(i+2) / 13})
		}
		return all
	}
	video := &Video{Card: cards[0], Likes: n(14_200), Remarks: n(1204), Average: n(9400), Curve: curve(389_000), Uploads: uploads, Alike: cards[1:6],
		Changes:   []Change{{At: ago(8), Before: "Moka pot tips", After: titles[0], Pictured: true}},
		Sightings: []Sighting{{At: ago(2), Job: "coffee", Topic: "moka pot", Page: n(1), Rank: n(2)}},
		Comments:  []Comment{{Author: "@tamper_tantrum", Text: "Cold water, low flame, lid open.", Likes: n(4100)}},
		Lines:     []Line{{Text: "Every barista I know fills the bottom with hot water."}, {Start: 4200, Text: "My grandmother laughed."}}, LineCount: 214}
	video.Tags, video.Note = []string{"hook", "family"}, "Authority against experts"
	niche := &Niche{Topic: "home espresso", Topics: []Option{{Value: "home espresso", Count: 11}, {Value: "latte art", Count: 8}}, Job: "coffee", Outliers: 346, Channels: 112,
		NewChannels: 9, Typical: x(12), Before: x(6.8), Credits: 32, New: 46, Seen: n(346), Total: n(466), Pages: n(3), Run: "01a", Shares: []float64{1, .4, .3, .25, .2, .3},
		Strongest: cards[:5], Others: 2910, Words: []Word{{"blind", 9, 9.1, x(23), titles[4]}, {"review", 6, .3, x(3.7), titles[0]}},
		Shapes: []Shape{{"in the first person", 34, 13}, {"a word in capitals", 15, 27}}}
	for i := range 12 {
		niche.Weeks = append(niche.Weeks, Week{From: ago(7 * (12 - i)), Count: [5]int64{2, int64(i), 3, int64(i / 3), int64(i / 6)}})
	}
	for i := range 5 {
		niche.Leaders = append(niche.Leaders, Leader{ID: "UC1", Title: "Dialed In", Subscribers: n(96_000), Count: [5]int64{3, 4, int64(5 - i), 2, 1}, Best: x(32), Week: 3})
	}
	monday := now.AddDate(0, 0, (8-int(now.Weekday()))%7).Add(-150 * time.Minute)
	cycle := &Cycle{From: ago(20), To: ago(-10), Now: now, Max: 400, Left: 100}
	credits := func(n int64) *outlier.Credits { return (*outlier.Credits)(&n) }
	cost := func(n outlier.Credits) forecast.Estimate { return forecast.Estimate{Cost: plan.Cost{Credits: n}} }
	topic := plan.Choice{Name: "latte art", Job: "niches", Rate: 2.24, Expected: 4, Every: 3, AtLeast: 3}
	money := &Money{At: now, In: report.Style{Near: true}, Cycle: cycle, Month: facts.CapBalance{Held: 300}, Day: facts.CapBalance{Held: 15, Max: credits(80)},
		Forecast: forecast.Forecast{At: now, Cycle: forecast.Cycle{Wanted: 60}, Jobs: []forecast.Job{
			{Job: "coffee", Due: []time.Time{monday}, Worst: cost(16), Expected: cost(12), Runs: 4},
			{Job: "tea", Worst: cost(4), Expected: cost(4), Auto: &plan.Auto{Choices: []plan.Choice{topic}}}}},
		Yields: []Yield{{Topic: "home espresso", Job: "coffee", Credits: 32, New: 46, IDs: 50, Shared: 9, Shares: []float64{.9, .5, .4}}, {Topic: "pour over", Job: "coffee", Credits: 24, New: 13, IDs: 50, Shared: 30, Shares: []float64{.9, .3, .2}}},
		Rests:  []Rest{{Topic: "home espresso", Job: "coffee", Run: "01a", Seen: 346, Total: 466, Pages: n(3)}}}
	for i := range 20 {
		money.Days = append(money.Days, Spending{ago(19 - i), []string{"coffee", "tea"}, []int64{10, int64(i % 6)}})
	}
	status := &Now{In: report.Style{Near: true}, Cycle: cycle, Requests: pace.Status{Limit: 10, Remaining: 3}, Free: 41 << 30, Data: "data folder 320 MB, ≈ +40 MB a week",
		MaxAge: 48 * time.Hour, Status: forecast.Status{At: now, Process: &forecast.Process{PID: 7, Command: "outlierd up", Since: ago(1)}, Newest: now.Add(-135 * time.Minute),
			Budget: []facts.CapBalance{{Max: credits(400), Held: 300}}, Queue: forecast.QueueStatus{Calls: 31, Done: now.Add(4 * time.Minute)}, Pace: forecast.PaceStatus{Pace: "10/min"},
			Sinks: []forecast.SinkStatus{{Sink: "duckdb", Known: true, SinkState: runs.SinkState{Published: now}}}}}
	for i, name := range []string{"coffee", "games", "a job with a long name", "tea"} {
		last := &runs.Run{ID: "01a", Status: []runs.Status{runs.OK, runs.Failed, runs.OK, runs.OK}[i], Ended: now.Add(-149 * time.Minute), Hits: 120, NewHits: 4,
			Error: "The service answered HTTP 503"}
		j := Job{JobStatus: forecast.JobStatus{Job: name, Last: last, Due: monday}, Schedule: "mon,thu 06:30", Price: "≤ 16 credits",
			DueAt: []time.Time{now.Add(time.Duration(5*i) * time.Hour)}}
		for _, n := range []int64{4, 3, 2, 1, 5, 0, 1, 2} {
			j.Recent = append(j.Recent, runs.Run{NewHits: n})
		}
		if i == 0 {
			j.Doing, j.Run = forecast.JobRunning, "01b"
		} else if i == 3 {
			j.Paused = &runs.Pause{Job: name}
		}
		status.Rows = append(status.Rows, j)
		status.Runs = append(status.Runs, runs.Run{ID: "01a", Job: name, Status: runs.OK, Started: now, Ended: now.Add(12 * time.Second), Hits: 120, NewHits: 4, Credits: 6})
	}
	channel := &Channel{ID: "UC1", Title: "Cheap Espresso Club", Handle: "cheap", Last: now, Subscribers: n(41_200), Videos: n(130), Average: n(9400), Median: n(6100), Outliers: n(4),
		Curve: curve(41_200), Found: cards[:3], Uploads: uploads, UploadCount: 12}
	return siteOf(t, Sources{
		Now: func(context.Context) (*Now, error) { return status, nil },
		Found: func(context.Context, Filter) (*Found, error) {
			return &Found{Cards: cards, Total: 12, SQL: "SELECT 1", Views: viewsOf(12, "New this week", "/", 1284, "Everything", "/found", 3, "Hooks to steal", "/found?q=%23hook")}, nil
		},
		Runs:  func(context.Context, runs.Filter) (*Runs, error) { return &Runs{}, nil },
		Video: func(context.Context, VideoFilter) (*Video, error) { return video, nil }, Channel: func(context.Context, ChannelFilter) (*Channel, error) { return channel, nil },
		Niche: func(context.Context, string) (*Niche, error) { return niche, nil }, Money: func(context.Context) (*Money, error) { return money, nil },
		Picked: func(context.Context, []string) ([]Card, error) { return cards[:2], nil },
		Offer: func(context.Context, Action) (*Offer, error) {
			return &Offer{Title: "Run coffee", Says: []string{"coffee: at most 12 credits"}, Button: "Run it"}, nil
		},
		Mark:  func(context.Context, marks.Edit) error { return nil },
		Views: func() ([]marks.View, error) { return nil, nil }, SaveView: func(string, string, string) error { return nil },
		Thumbnails: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "image/svg+xml")
			_, _ = w.Write(icon)
		},
		ImageSources: "'self'",
	})
}

// TestServeSample serves the sample, logged in, and prints its addresses, until its standard input ends.
func TestServeSample(t *testing.T) {
	if *serveAt == "" {
		t.Skip("without -serve")
	}
	serveUntilEnd(t, map[*Site][]string{sample(t): samplePages})
}
