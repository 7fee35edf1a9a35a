package engine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/journal"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// A listing is a service with one list of videos, which changes between its pages.
type listing struct {
	ids    []string
	items  bool           // `from` counts items
	counts bool           // answers have a total
	change func(page int) // called before each page but the first
	named  int            // number of videos that were ever in the list

	spoiled, spoils int // position, from 1, of the first hit without an id, and the number of such hits

	asked []int // `from`, by page
	most  int   // the largest total in an answer
}

// arrive inserts n new videos at the front.
func (l *listing) arrive(n int) {
	for range n {
		l.ids = slices.Insert(l.ids, 0, fmt.Sprintf("v%010d", l.named))
		l.named++
	}
}

// vanish removes n videos from a position on.
func (l *listing) vanish(at, n int) {
	at = min(at, len(l.ids))
	l.ids = slices.Delete(l.ids, at, min(at+n, len(l.ids)))
}

func (l *listing) RoundTrip(r *http.Request) (*http.Response, error) {
	connect(r)
	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	size, _ := strconv.Atoi(r.URL.Query().Get("size"))
	if len(l.asked) > 0 && l.change != nil {
		l.change(len(l.asked))
	}
	l.asked = append(l.asked, from)
	skip := from * size
	if l.items {
		skip = from
	}
	hits := []map[string]any{}
	for i, id := range l.ids[min(skip, len(l.ids)):min(skip+size, len(l.ids))] {
		hit := map[string]any{"id": id, "kind": "video", "snippet": map[string]any{"channelId": "UCaaaaaaaaaaaaaaaaaaaaaa"}}
		if place := skip + i + 1; place >= l.spoiled && place < l.spoiled+l.spoils {
			hit["id"] = nil
		}
		hits = append(hits, hit)
	}
	pagination := map[string]any{"from": from, "size": size}
	if l.counts {
		l.most = max(l.most, len(l.ids))
		pagination["total"] = len(l.ids)
	}
	body, err := json.Marshal(map[string]any{"pagination": pagination, "hits": hits})
	return page(http.StatusOK, "application/json", string(body)), err
}

const listingFile = `
version: 1
service: {url: "sim://", limit: 6000/min}
jobs:
  one: {reuse_for: 1m, search: {query: [finance], pages: all}, budget: {per_run: 100}}
`

// searched runs the job over a listing, with a recorded paging ("" for none). It returns the run's
// only search and how it ended.
func (w *workshop) searched(e *Engine, l *listing, believed string) (runs.Step, Ending) {
	w.Helper()
	w.wire = l
	e.Client.Transport = l
	err := e.Store.DB.Update(func(tx *store.Tx) error {
		if err := journal.UnlearnPaging(tx, outlier.OpSearch); err != nil || believed == "" {
			return err
		}
		return journal.LearnPaging(tx, outlier.OpSearch, believed)
	})
	if err != nil {
		w.Fatal(err)
	}
	time.Sleep(time.Hour)
	row, err := e.Run(w.ctx, &w.config.Jobs[0], Manual, time.Time{})
	if err != nil {
		w.Fatal(err)
	}
	steps, err := e.Store.Steps.OfRun(row.ID)
	if err != nil {
		w.Fatal(err)
	}
	ends, err := Endings(e.Facts(), row)
	if err != nil {
		w.Fatal(err)
	}
	return steps[0], ends[0]
}

// TestNewVideoKeepsLearnedPaging: with 41 hits and a new video between the pages, the second page has one hit
// of the first page and a new one. The next search, of 200 hits, still finds all of them.
func TestNewVideoKeepsLearnedPaging(t *testing.T) {
	t.Parallel()
	bare(t, listingFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		odd := &listing{counts: true}
		odd.arrive(41)
		odd.change = func(int) { odd.arrive(1) }
		if step, _ := w.searched(e, odd, ""); step.Seen != 41 {
			t.Errorf("%d hits were seen, want 41", step.Seen)
		}
		if believed, err := e.Store.Learned.Paging(outlier.OpSearch); err != nil || believed.Reading == job.PagingOffset {
			t.Errorf("from counts %q (%v)", believed.Reading, err)
		}
		long := &listing{counts: true, named: 1000}
		long.arrive(200)
		if step, end := w.searched(e, long, ""); step.Seen != 200 || end.Short {
			t.Errorf("%d of 200 hits were seen, asked from %v: %+v", step.Seen, long.asked, end)
		}
	})
}

// TestWrongPagingIsCorrected within the search, by the page that contradicts it.
func TestWrongPagingIsCorrected(t *testing.T) {
	t.Parallel()
	for _, items := range []bool{false, true} {
		for _, there := range []int{41, 60, 85, 410} {
			t.Run(fmt.Sprint(there, " items ", items), func(t *testing.T) {
				bare(t, strings.Replace(listingFile, "per_run: 100", "per_run: 200", 1), func(w *workshop) {
					e, stop := w.open()
					defer stop()
					l := &listing{counts: true, items: items}
					l.arrive(there)
					right, wrong := job.PagingPage, job.PagingOffset
					if items {
						right, wrong = wrong, right
					}
					step, _ := w.searched(e, l, wrong)
					if step.Seen != there {
						t.Errorf("%d of %d hits were seen, asked from %v", step.Seen, there, l.asked)
					}
					if most := (there+39)/40 + 2; len(l.asked) > most {
						t.Errorf("%d requests, want %d at most: %v", len(l.asked), most, l.asked)
					}
					if believed, err := e.Store.Learned.Paging(outlier.OpSearch); err != nil || believed.Reading == wrong || there > 41 && believed.Reading != right {
						t.Errorf("from counts %q (%v), want %q", believed.Reading, err, right)
					}
				})
			})
		}
	}
}

// TestSearchStaysCompleteDespiteChanges: whatever is added and removed between pages, and whatever paging was
// recorded, a search that ends with "no more hits" has seen at least as many hits as the largest total. If
// videos are only added or only removed, it has seen all that were in the list the whole time. If nothing
// changes, it finds all.
func TestSearchStaysCompleteDespiteChanges(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	plays := 40
	if *long {
		plays = 100
	}
	bare(t, listingFile, func(w *workshop) {
		e, stop := w.open()
		defer stop()
		for seed := range plays {
			chance := rand.New(rand.NewPCG(uint64(seed), 1))
			arrivals, losses := chance.IntN(2) == 0, chance.IntN(2) == 0
			l := &listing{items: chance.IntN(2) == 0, counts: chance.IntN(8) > 0, named: 1000 * seed}
			l.arrive([]int{0, 1, 2, 39, 40, 41, 42, 60, 79, 80, 81, 85, 120, 200}[chance.IntN(14)])
			there, all := slices.Clone(l.ids), len(l.ids)
			few := []int{2, 2, 20, 39, 40, 41, 60}
			l.change = func(int) {
				if arrivals && chance.IntN(2) == 0 {
					l.arrive(chance.IntN(few[chance.IntN(len(few))]))
				}
				if losses && chance.IntN(2) == 0 {
					l.vanish(chance.IntN(len(l.ids)+1)*chance.IntN(2), chance.IntN(few[chance.IntN(len(few))]))
				}
			}
			believed := []string{"", job.PagingPage, job.PagingOffset}[chance.IntN(3)]
			step, end := w.searched(e, l, believed)
			what := fmt.Sprintf("seed %d, items %t, counts %t, %d hits, arrivals %t, losses %t, believed %q, asked from %v: seen %d, total %d, stop %s",
				seed, l.items, l.counts, all, arrivals, losses, believed, l.asked, step.Seen, step.Total, step.Stop)
			if !arrivals && !losses && l.counts && (step.Seen != all || end.Short) {
				t.Error("not all was found: ", what)
			}
			if end.Early == "" || end.Short || end.Total < 0 {
				continue
			}
			if step.Seen < l.most {
				t.Errorf("the service counted %d, and the search ended in silence: %s", l.most, what)
			}
			if arrivals && losses {
				continue
			}
			for _, id := range there {
				if slices.Contains(l.ids, id) && !w.brought(e, &step, id) {
					t.Errorf("%s was there the whole time and was not found: %s", id, what)
					break
				}
			}
		}
	})
}

// brought reports whether a step found a video.
func (w *workshop) brought(e *Engine, step *runs.Step, id string) (found bool) {
	w.Helper()
	err := e.Store.DB.Update(func(tx *store.Tx) error {
		n, err := runs.Sighted(tx, step, []runs.Hit{{VideoID: id}})
		found = n > 0
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return found
}
