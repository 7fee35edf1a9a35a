package simulator

import (
	"bytes"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// prices are the documented prices, in credits per request. Operations that are not listed are free.
var prices = map[outlier.Operation]outlier.Credits{
	outlier.OpSearch: 2, outlier.OpRelated: 2, outlier.OpFindChannels: 5, outlier.OpFindRelatedChannels: 5,
	outlier.OpTrendingFormats: 1,
}

func TestOperationsHaveTheDocumentedPrices(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	var spent outlier.Credits
	for op, path := range paths(t, s) {
		if resp, body := askRaw(t, s.Transport(), path); resp.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: answer %d %s, want %d", path, resp.StatusCode, body, http.StatusOK)
		}
		if diff := cmp.Diff(Totals{Calls: 1, Served: 1, Charged: prices[op]}, s.Books().Operations[op]); diff != "" {
			t.Errorf("books of %s (-want +got):\n%s", op, diff)
		}
		spent += prices[op]
	}
	if got := s.Books().Total.Spent(); got != spent {
		t.Errorf("spent %d credits, want %d", got, spent)
	}
}

// An identical paid call is free within the cache period.
func TestCachedPaidCallIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		path := paths(t, s)[outlier.OpSearch]
		spent := func() outlier.Credits { return s.Books().Total.Spent() }
		first, _ := ask[searchAnswer](t, s.Transport(), path)
		time.Sleep(10*time.Minute - 1)
		if second, _ := ask[searchAnswer](t, s.Transport(), path); spent() != 2 || !cmp.Equal(first, second) {
			t.Errorf("spent %d credits after a repeat within the period, want 2 and the same answer", spent())
		}
		ask[searchAnswer](t, s.Transport(), path+"&from=1")
		if spent() != 4 {
			t.Errorf("spent %d credits after another page, want 4", spent())
		}
		time.Sleep(time.Nanosecond)
		ask[searchAnswer](t, s.Transport(), path)
		if spent() != 6 {
			t.Errorf("spent %d credits after the period, want 6", spent())
		}
		if got := s.Books().Total.Cached; got != 1 {
			t.Errorf("%d answers from the cache, want 1", got)
		}
	})
}

// A cached answer is unchanged in the next hour, in which answers that are not cached differ.
func TestCachedAnswerStaysAcrossHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		time.Sleep(59 * time.Minute)
		path := paths(t, s)[outlier.OpSearch]
		first, _ := ask[searchAnswer](t, s.Transport(), path)
		time.Sleep(2 * time.Minute)
		cached, _ := ask[searchAnswer](t, s.Transport(), path)
		fresh, _ := ask[searchAnswer](t, s.Transport(), path+"&size=20")
		if !cmp.Equal(first, cached) {
			t.Error("the cached answer differs from the first")
		}
		if cmp.Equal(first.Hits, fresh.Hits) {
			t.Error("an answer that is not cached has the hits of the last hour")
		}
	})
}

func TestExhaustedBalanceRefusesAllButRepeats(t *testing.T) {
	s := unlimited(Options{Seed: 1, Credits: 3})
	path := paths(t, s)[outlier.OpSearch]
	ask[searchAnswer](t, s.Transport(), path)
	got, resp := ask[simple](t, s.Transport(), path+"&from=1")
	if resp.StatusCode != http.StatusPaymentRequired || got.Error.Message != "Insufficient credits" || got.Status != "error" {
		t.Errorf("answer %d %+v, want 402", resp.StatusCode, got)
	}
	if _, resp := ask[searchAnswer](t, s.Transport(), path); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d for a free repeat, want %d", resp.StatusCode, http.StatusOK)
	}
	want := Totals{Calls: 3, Served: 2, Refused: 1, Cached: 1, Charged: 2}
	if diff := cmp.Diff(want, s.Books().Total); diff != "" {
		t.Errorf("books (-want +got):\n%s", diff)
	}
}

func TestRefundedCreditsCanBeSpentAgain(t *testing.T) {
	s := unlimited(Options{Seed: 1, Credits: 2})
	path := paths(t, s)[outlier.OpSearch]
	s.FailNext(outlier.OpSearch, ServerError)
	if _, resp := ask[simple](t, s.Transport(), path); resp.StatusCode != http.StatusInternalServerError {
		t.Fatalf("status %d, want %d", resp.StatusCode, http.StatusInternalServerError)
	}
	if _, resp := ask[searchAnswer](t, s.Transport(), path); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d after the refund, want %d", resp.StatusCode, http.StatusOK)
	}
	want := Totals{Calls: 2, Served: 1, Failed: 1, Charged: 4, Refunded: 2}
	if diff := cmp.Diff(want, s.Books().Total); diff != "" {
		t.Errorf("books (-want +got):\n%s", diff)
	}
}

func TestRefusedCallsCostNothing(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	askRaw(t, s.Transport(), "/search/outliers?size=41")
	askRaw(t, s.Transport(), "/video/dQw4w9WgXcQ")
	askRaw(t, s.Transport(), "/nowhere")
	want := Totals{Calls: 3, Refused: 1, Missing: 2}
	if diff := cmp.Diff(want, s.Books().Total); diff != "" {
		t.Errorf("books (-want +got):\n%s", diff)
	}
}

// TestCallsWithoutTheKeyAreUnauthorized, and do not count towards the rate limit.
func TestCallsWithoutTheKeyAreUnauthorized(t *testing.T) {
	s := New(Options{Seed: 1, Key: "s3cret", Limit: 1})
	for _, header := range []string{"", "s3cret", "Bearer s3cret", "Api-Key demo", "Api-Key  s3cret", "api-key s3cret"} {
		r := request(t, "http://service.test/search/outliers")
		r.Header.Set("Authorization", header)
		resp, err := s.Transport().RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("Authorization %q: answer %v, %v; want 401", header, resp, err)
		}
	}
	r := request(t, "http://service.test/search/outliers")
	r.Header.Set("Authorization", "Api-Key s3cret")
	if resp, err := s.Transport().RoundTrip(r); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("with the key, after calls without it: answer %v, %v; want 200", resp, err)
	}
}

// The log has each call with the identity that the client gives its request.
func TestCallLogUsesClientIdentity(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	params := url.Values{"query": {"b", "a & ü"}, "size": {"40"}}
	askRaw(t, s.Transport(), "/search/outliers?size=40&"+url.Values{"query": params["query"]}.Encode())
	askRaw(t, s.Transport(), "/video/comments/dQw4w9WgXcQ")
	search := requestFor(t, outlier.OpSearch, params)
	want := []Call{
		{At: Epoch, Op: outlier.OpSearch, Identity: "search  " + search.Params().Encode(), Result: Served, Status: 200, Charged: 2},
		{
			At: Epoch, Op: outlier.OpComments, Entity: "dQw4w9WgXcQ", Identity: "comments dQw4w9WgXcQ ",
			Result: Missing, Status: 404,
		},
	}
	if diff := cmp.Diff(want, s.Books().Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestBooksBalanceAfterConcurrentFaults(t *testing.T) {
	s := unlimited(Options{Seed: 1, Credits: 40})
	all := paths(t, s)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 20 {
				s.FailNext("", []Fault{ServerError, GatewayPage, DropAnswer, slow(1)}[j%4])
				for op, path := range all {
					if op == outlier.OpSearch {
						path += "&from=" + []string{"0", "1", "2"}[(i+j)%3] + "&size=" + []string{"1", "2", "3"}[j%3]
					}
					resp, err := s.Transport().RoundTrip(request(t, "http://service.test"+path))
					if err == nil {
						new(bytes.Buffer).ReadFrom(resp.Body)
					}
				}
				s.Books()
			}
		})
	}
	wg.Wait()
	b := s.Books()
	var sum, logged Totals
	for _, o := range b.Operations {
		sum.Calls += o.Calls
		sum.Charged += o.Charged
		sum.Refunded += o.Refunded
	}
	for _, c := range b.Calls {
		logged.addCall(c)
	}
	total := b.Total
	if sum.Calls != total.Calls || sum.Spent() != total.Spent() || logged != total || total.Calls != 16*20*len(all) {
		t.Errorf("total %+v, by operation %+v, logged %+v; want the same, and %d calls", total, sum, logged, 16*20*len(all))
	}
	if total.Served+total.Missing+total.Refused+total.Failed+total.Lost != total.Calls {
		t.Errorf("results do not add up: %+v", total)
	}
	if total.Spent() > 40 {
		t.Errorf("spent %d credits, want at most 40", total.Spent())
	}
}

// The log drops old calls, and the totals still count them.
func TestTotalsCountDroppedCalls(t *testing.T) {
	l := newLedger(Options{})
	for range maxLog + 5 {
		l.bookFree(Call{Result: Served})
	}
	if l.books.Total.Calls != maxLog+5 || len(l.books.Calls) != maxLog-maxLog/10+5 {
		t.Errorf("%d calls, %d in the log; want %d and %d",
			l.books.Total.Calls, len(l.books.Calls), maxLog+5, maxLog-maxLog/10+5)
	}
}
