package simulator

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/outlier/simulator/library"
)

// record returns the record of a scan after validating it.
func (x exchange) record(t *testing.T) scanAnswer {
	t.Helper()
	checkAnswer(t, x, http.StatusOK)
	var a scanAnswer
	if err := json.Unmarshal(x.body, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func startScan(t *testing.T, s *Service, body string) scanAnswer {
	t.Helper()
	return orderScan(t, s, body).record(t)
}

func readRecord(t *testing.T, s *Service, id string) scanAnswer {
	t.Helper()
	return get(t, s, "/scan/"+id).record(t)
}

// results returns all hits of a scan that match p.
func results(t *testing.T, s *Service, id string, p url.Values) []hit {
	t.Helper()
	var all []hit
	for page := 0; ; page++ {
		q := maps.Clone(p)
		if q == nil {
			q = url.Values{}
		}
		q.Set("referenceId", id)
		q.Set("size", "40")
		q.Set("from", strconv.Itoa(page))
		a, _ := ask[searchAnswer](t, s.Transport(), "/search/outliers?"+q.Encode())
		if len(a.Hits) == 0 {
			return all
		}
		all = append(all, a.Hits...)
	}
}

// course lets every scan go through these phases.
func course(phases ...Phase) func(string) []Phase {
	return func(string) []Phase { return phases }
}

func TestScanPassesThroughItsPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1, Limit: 1000, Scans: course(
			Phase{"Queued", time.Minute}, Phase{"Running", 10 * time.Minute}, Phase{"Suspended", 5 * time.Minute},
			Phase{"ContinuedAsNew", time.Second}, Phase{"Running", time.Hour}, Phase{Status: "Completed"},
		)})
		begun := time.Now()
		timeAfter := func(d time.Duration) string { return begun.Add(d).UTC().Format(library.WithMillis) }
		id := startScan(t, s, `{"query":["moka pot","latte art"]}`).ID
		for _, tt := range []struct {
			at, updated time.Duration
			status      string
		}{
			{0, 0, "Queued"},
			{time.Minute, time.Minute, "Running"},
			{11*time.Minute - 1, 10 * time.Minute, "Running"},
			{11 * time.Minute, 11 * time.Minute, "Suspended"},
			{16 * time.Minute, 16 * time.Minute, "ContinuedAsNew"},
			{16*time.Minute + time.Second, 16*time.Minute + time.Second, "Running"},
			{17*time.Minute + 30*time.Second, 17 * time.Minute, "Running"},
			{76*time.Minute + time.Second, 76*time.Minute + time.Second, "Completed"},
			{1000 * time.Hour, 76*time.Minute + time.Second, "Completed"},
		} {
			time.Sleep(time.Until(begun.Add(tt.at)))
			want := scanAnswer{
				ID: id, Name: "Scan: moka pot, latte art", Status: tt.status,
				CreatedAt: timeAfter(0), UpdatedAt: timeAfter(tt.updated),
				Input: scanInput{Query: []string{"moka pot", "latte art"}},
			}
			if tt.status == "Completed" {
				want.EndedAt = &want.UpdatedAt
			}
			got := readRecord(t, s, id)
			got.Input.Threshold = nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after %v (-want +got):\n%s", tt.at, diff)
			}
		}
		if got := s.Books().Operations[outlier.OpScan]; got.Charged != 0 || got.Served != 9 {
			t.Errorf("books of the records: %+v, want 9 served for 0 credits", got)
		}
	})
}

func TestPhasesAreAnOption(t *testing.T) {
	for status, ended := range map[string]bool{
		"Queued": false, "Running": false, "Suspended": false, "ContinuedAsNew": false,
		"Completed": true, "Failed": true, "Terminated": true, "Exploded": true,
	} {
		s := unlimited(Options{Seed: 1, Scans: course(Phase{Status: status})})
		a := startScan(t, s, `{"query":["moka pot"]}`)
		hits := len(results(t, s, a.ID, nil))
		if a.Status != status || (a.EndedAt != nil) != ended || (hits > 0) != (status == "Completed") {
			t.Errorf("%s: got %+v with %d hits, want ended: %t", status, a, hits, ended)
		}
	}
	if a := startScan(t, unlimited(Options{Scans: course()}), `{"query":["x"]}`); a.Status != "Completed" {
		t.Errorf("without phases: got %+v, want Completed", a)
	}
}

func TestRandomPhasesOfScans(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		n := drawScan(t)
		phases := n.drawPhases(1)
		var sum time.Duration
		for i, p := range phases {
			if last := i == len(phases)-1; last == slices.Contains(unfinished, p.Status) || !last && p.Lasts <= 0 {
				t.Fatalf("phase %d of %v: want a final status in the last phase only, and a duration in the others", i, phases)
			}
			sum += p.Lasts
		}
		if m := n.mode(); sum < m.shortest || sum > m.longest {
			t.Errorf("a %s scan takes %v, want %v to %v: %v", m.name, sum, m.shortest, m.longest, phases)
		}
		if !cmp.Equal(phases, n.drawPhases(1)) {
			t.Errorf("phases of the same scan: %v, then %v", phases, n.drawPhases(1))
		}
	})
	for salt := range uint64(2000) {
		for _, p := range (&scan{started: 1 << 40, salt: salt}).drawPhases(1) {
			seen[p.Status]++
		}
	}
	want := []string{"Completed", "Failed", "Queued", "Running", "Terminated"}
	if !cmp.Equal(want, slices.Sorted(maps.Keys(seen))) || seen["Completed"] < 1900 {
		t.Errorf("statuses %v, want all of %v, and Completed at least 1,900 times", seen, want)
	}
}

func drawScan(t *rapid.T) *scan {
	return &scan{
		started: rapid.Uint64Range(0, 1<<42-1).Draw(t, "started"), standard: rapid.Bool().Draw(t, "standard"),
		channels: rapid.Bool().Draw(t, "channels"), topics: rapid.Uint64Range(0, 1<<40-1).Draw(t, "topics"),
		salt: rapid.Uint64Range(0, 1<<22-1).Draw(t, "salt"),
	}
}

func TestScanIDEncodesTheScan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, seed := drawScan(t), rapid.Uint64().Draw(t, "seed")
		id := n.id(seed)
		if _, err := outlier.DataRequest(outlier.OpScan, id); err != nil {
			t.Fatalf("%s is not a UUID of version 4", id)
		}
		got, ok := scanOf(seed, strings.ToUpper(id))
		if diff := cmp.Diff(n, got, cmp.AllowUnexported(scan{})); !ok || diff != "" {
			t.Errorf("%s is decoded: %t (-want +got):\n%s", id, ok, diff)
		}
	})
}

func TestUnknownScansAreNotFound(t *testing.T) {
	s := unlimited(Options{Seed: 1, Scans: course()})
	foreign := startScan(t, unlimited(Options{Seed: 2}), `{"query":["x"]}`).ID
	for _, id := range []string{"c9bf9e57-1685-4c89-bafb-ff5af830be8a", "3f2b8c1e-9d4a-4c6b-8e7f-0a1b2c3d4e5f", foreign} {
		checkAnswer(t, get(t, s, "/scan/"+id), http.StatusNotFound)
		if got := results(t, s, id, nil); got != nil {
			t.Errorf("scan %s has %d results, want none", id, len(got))
		}
	}
	if got := results(t, s, "not an id", nil); got != nil {
		t.Errorf("a search with an invalid scan id has %d results, want none", len(got))
	}
	for _, id := range []string{"x", "3f2b8c1e-9d4a-1c6b-8e7f-0a1b2c3d4e5f", "3f2b8c1e9d4a4c6b8e7f0a1b2c3d4e5f"} {
		checkRefused(t, s.Transport(), "id", "/scan/"+id)
	}
}

// The results of a scan are available when it has completed, and not before.
func TestCompletedScanHasResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1, Limit: 1000, Scans: course(Phase{"Running", time.Hour}, Phase{Status: "Completed"})})
		id := startScan(t, s, `{"query":["moka pot"]}`).ID
		time.Sleep(time.Hour - 1)
		if got := results(t, s, id, nil); len(got) != 0 {
			t.Errorf("%d results before the scan has completed, want none", len(got))
		}
		time.Sleep(10 * time.Minute) // until the empty answer is no longer cached
		before := s.Books().Total.Spent()
		all := results(t, s, id, nil)
		if spent := s.Books().Total.Spent() - before; len(all) != 1000 || spent != 2*26 {
			t.Errorf("%d results for %d credits, want 1,000 on 25 pages and an empty one, for 52 credits", len(all), spent)
		}
		seen := map[string]bool{}
		for _, h := range all {
			seen[h.ID] = true
		}
		if len(seen) != 1000 {
			t.Errorf("%d different results, want 1,000", len(seen))
		}
		time.Sleep(100 * time.Hour)
		if !cmp.Equal(all, results(t, s, id, nil)) {
			t.Error("the results have changed after 100 h")
		}
	})
}

func TestResultsObeyFiltersAndOrder(t *testing.T) {
	testenv.RacesLittle(t)
	s := unlimited(Options{Seed: 1, Scans: course()})
	id := startScan(t, s, `{"query":["moka pot"],"mode":"standard"}`).ID
	all := results(t, s, id, nil)
	some := results(t, s, id, url.Values{"zScoreFrom": {"3"}, "language": {"en"}, "sortBy": {"views"}})
	var want []hit
	for _, h := range all {
		if h.Statistics.ZScore != nil && *h.Statistics.ZScore >= 3 && h.Snippet.Language == "en" {
			want = append(want, h)
		}
	}
	slices.SortStableFunc(want, func(a, b hit) int {
		return int(*b.Statistics.ViewCount - *a.Statistics.ViewCount)
	})
	if len(all) != 2500 || len(want) == 0 || !cmp.Equal(want, some) {
		t.Errorf("%d of %d results, want %d of 2500, sorted by views", len(some), len(all), len(want))
	}
	near, _ := ask[searchAnswer](t, s.Transport(), "/search/outliers/related?videoId="+all[0].ID+"&referenceId="+id)
	for _, h := range near.Hits {
		if !slices.ContainsFunc(all, func(o hit) bool { return o.ID == h.ID }) {
			t.Errorf("a related search among the results found %s, which is not one of them", h.ID)
		}
	}
	if len(near.Hits) == 0 {
		t.Error("a related search among the results found nothing")
	}
}

func TestScanFindsItsTopic(t *testing.T) {
	testenv.RacesLittle(t)
	s := unlimited(Options{Seed: 1, Scans: course()})
	l := library.Open(1)
	niche := func(h hit) string { return l.ByID[h.Snippet.ChannelID].Niche.Name }
	all := results(t, s, startScan(t, s, `{"query":["espresso machine repair"]}`).ID, nil)
	coffee := 0
	for _, h := range all {
		coffee += int(bitIf(niche(h) == "coffee"))
	}
	there := 0
	for _, h := range l.Index(Epoch).Hits() {
		there += int(bitIf(h.Channel.Niche.Name == "coffee"))
	}
	if coffee < min(there, 1000) {
		t.Errorf("%d of %d results are about coffee, want all %d of the library, or 1,000", coffee, len(all), there)
	}
	if got := results(t, s, startScan(t, s, `{"query":["zzz unheard of"]}`).ID, nil); len(got) != 1000 {
		t.Errorf("a query with unknown words has %d results, want 1,000", len(got))
	}
}

// A scan from channels finds all outliers of a limited number of channels.
func TestChannelScanFindsAllOutliers(t *testing.T) {
	testenv.RacesLittle(t)
	s := unlimited(Options{Seed: 1, Scans: course()})
	x := library.Open(1).Index(Epoch)
	from := x.Hits()[0].Channel
	for mode, most := range map[string]int{"fast": 100, "standard": 250} {
		a := startScan(t, s, `{"findBy":"channels","query":["`+from.ID+`"],"mode":"`+mode+`"}`)
		found := map[string]int{}
		for _, h := range results(t, s, a.ID, nil) {
			found[h.Snippet.ChannelID]++
		}
		if len(found) != most || found[from.ID] == 0 {
			t.Errorf("%s: results of %d channels, want %d including %s", mode, len(found), most, from.ID)
		}
		for _, h := range x.Hits() {
			if found[h.Channel.ID]--; found[h.Channel.ID] == 0 {
				delete(found, h.Channel.ID)
			}
		}
		maps.DeleteFunc(found, func(_ string, n int) bool { return n < 0 })
		if len(found) != 0 {
			t.Errorf("%s: channels with more results than outliers: %v", mode, found)
		}
	}
}

func TestThresholdsHaveBothForms(t *testing.T) {
	testenv.RacesLittle(t)
	s := unlimited(Options{Seed: 1})
	channel := library.Open(1).Channels[0].ID
	for body, limits := range map[string][2]float64{
		`{"query":["x"]}`:                                                     {noThreshold, 1000},
		`{"query":["x"],"mode":"standard"}`:                                   {noThreshold, 2500},
		`{"query":["` + channel + `"],"findBy":"channels"}`:                   {100, noThreshold},
		`{"query":["` + channel + `"],"findBy":"channels","mode":"standard"}`: {250, noThreshold},
	} {
		forms := map[string]bool{}
		for range 100 {
			switch got := startScan(t, s, body).Input.Threshold.(type) {
			case float64:
				forms["number"] = got == min(limits[0], limits[1])
			case map[string]any:
				forms["object"] = cmp.Equal(got, map[string]any{"channels": limits[0], "outlierVideos": limits[1]})
			}
		}
		if !cmp.Equal(forms, map[string]bool{"number": true, "object": true}) {
			t.Errorf("%s: correct thresholds by form: %v, want both", body, forms)
		}
	}
}

func TestScansContinueAfterARestart(t *testing.T) {
	testenv.RacesLittle(t)
	synctest.Test(t, func(t *testing.T) {
		o := Options{Seed: 1, Limit: 1000}
		before := New(o)
		fromQueries := startScan(t, before, `{"query":["moka pot","latte art"]}`).ID
		vague := startScan(t, before, `{"query":["best espresso machine repair"]}`).ID
		fromChannels := startScan(t, before, `{"findBy":"channels","query":["`+library.Open(1).Channels[0].ID+`"]}`).ID
		for range 3 {
			after := New(o)
			for _, id := range []string{fromQueries, vague, fromChannels} {
				want, got := readRecord(t, before, id), readRecord(t, after, id)
				if id != fromQueries { // an id does not encode the wording of the others
					want.Name, want.Input.Query = got.Name, got.Input.Query
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("record of %s after a restart (-want +got):\n%s", id, diff)
				}
				if !cmp.Equal(results(t, before, id, nil), results(t, after, id, nil)) {
					t.Errorf("results of %s differ after a restart", id)
				}
			}
			time.Sleep(2 * time.Hour)
		}
	})
}

func TestScansOfAFrozenServiceContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := unlimited(Options{Seed: 1, Scans: course(Phase{"Running", time.Hour}, Phase{Status: "Completed"})})
		id := startScan(t, s, `{"query":["moka pot"]}`).ID
		started, ended := Epoch.Format(library.WithMillis), Epoch.Add(time.Hour).Format(library.WithMillis)
		if a := readRecord(t, s, id); a.Status != "Running" || a.CreatedAt != started {
			t.Errorf("got %+v, want Running, created at %s", a, started)
		}
		time.Sleep(time.Hour)
		if a := readRecord(t, s, id); a.EndedAt == nil || *a.EndedAt != ended {
			t.Errorf("got %+v, want ended at %s", a, ended)
		}
		if got := results(t, s, id, nil); len(got) != 1000 || got[0].Time != started {
			t.Errorf("%d results, want 1000 of %s", len(got), started)
		}
	})
}
