package outlier

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// query makes a query that obeys the interface.
func query(t testing.TB, op Operation, params url.Values) Query {
	t.Helper()
	q, err := NewQuery(op, params)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A query is equal to a stored one with the same parameters, and does not share memory with its source.
func TestEqualQueriesAreOneValue(t *testing.T) {
	params := url.Values{"sortBy": {"views"}, "query": {"tea", "a&b"}, "language": nil}
	q := query(t, OpSearch, params)
	params["query"][0] = "coffee"
	if q.Encode() != "query=tea&query=a%26b&sortBy=views" || q.Op() != OpSearch {
		t.Errorf("%s by %q", q.Op(), q.Encode())
	}
	if stored := UncheckedQuery(OpSearch, q.Encode()); stored != q {
		t.Errorf("on record it is %v", stored)
	}
	if q == query(t, OpSearch, url.Values{"query": {"a&b", "tea"}, "sortBy": {"views"}}) {
		t.Error("the order of a list makes no difference")
	}
	if scan := query(t, OpStartScan, url.Values{"query": {"tea"}}); scan.Encode() != "findBy=query&mode=fast&query=tea" {
		t.Errorf("a scan without a mode is %q", scan.Encode())
	}
	if _, err := NewQuery(OpSearch, url.Values{"sortBy": {"luck"}}); codes(err) == nil {
		t.Errorf("sortBy=luck gives %v", err)
	}
}

func TestAPageAddsOnlyItsPlace(t *testing.T) {
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{query(t, OpSearch, nil), "from=80&size=40"},
		{query(t, OpFindChannels, url.Values{"query": {"tea"}}), "from=80&query=tea&size=40"},
		{query(t, OpTrendingFormats, url.Values{"language": {"en"}}), "language=en"},
	} {
		r, err := tt.q.Page(80, Prices{"search": 3})
		if err != nil || r.params.Encode() != tt.want || r.price != (Prices{"search": 3}).Of(tt.q.op, "") {
			t.Errorf("%v for %d credits, %v; want %s", r.params, r.price, err, tt.want)
		}
	}
}

// TestStoredQueriesAreCheckedBeforeSending: the rules may have changed since.
func TestStoredQueriesAreCheckedBeforeSending(t *testing.T) {
	for _, q := range []Query{{}, UncheckedQuery(OpSearch, "sortBy=luck"), UncheckedQuery(OpSearch, "query=%zz"),
		UncheckedQuery(OpSearch, "from=0"), UncheckedQuery(OpDetails, "")} {
		if r, err := q.Page(0, nil); err == nil {
			t.Errorf("%q is sent as %v", q, r)
		}
	}
	if r, err := UncheckedQuery(OpStartScan, "mode=slow&query=a").Request(nil); err == nil {
		t.Errorf("a slow scan is sent as %v", r)
	}
}

// A change of a query returns a copy, and leaves the query itself as it was.
func TestQueryChangesMakeCopy(t *testing.T) {
	from := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	q := query(t, OpSearch, url.Values{"query": {"tea"}})
	dated := q.PublishedIn(from, time.Time{})
	if first, last := dated.Published(); first != from || !last.IsZero() || dated.Encode() != "publishedAtFrom=2026-10-01T00%3A00%3A00Z&query=tea" {
		t.Errorf("%s is for %v to %v", dated.Encode(), first, last)
	}
	if first, last := q.Published(); !first.IsZero() || !last.IsZero() {
		t.Errorf("the query itself has got dates: %s", q.Encode())
	}
	if read := q.OfScan("r"); read.Encode() != "query=tea&referenceId=r" {
		t.Errorf("of a scan it is %s", read.Encode())
	}
}

func TestQueryPriceMatchesItsCall(t *testing.T) {
	set := Prices{"scan_standard": 90}
	for q, want := range map[Query]Credits{
		query(t, OpSearch, nil):                                                 2,
		query(t, OpStartScan, url.Values{"query": {"a"}}):                       50,
		query(t, OpStartScan, url.Values{"query": {"a"}, "mode": {"standard"}}): 90,
		{}: 0,
	} {
		if got := q.Price(set); got != want {
			t.Errorf("%v costs %d, want %d", q, got, want)
		}
	}
}

// The subjects of an operation are the parameters with its queries or seeds.
func TestSubjectsAreSearchParameters(t *testing.T) {
	for op, want := range map[Operation]string{
		OpSearch: "query", OpFindChannels: "query", OpStartScan: "query", OpFindRelatedChannels: "relatedChannelId",
		OpRelated:         "title videoId thumbnailVideoId relatedChannelId",
		OpTrendingFormats: "query title videoId thumbnailVideoId relatedChannelId", // as far as it has them
		OpDetails:         "",
	} {
		if got := strings.Join(op.Subjects(), " "); got != want {
			t.Errorf("subjects of %s are %q, want %q", op, got, want)
		}
	}
}
