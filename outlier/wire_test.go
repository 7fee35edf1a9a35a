package outlier_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/outlier"
)

// tap keeps the request as it would go over the wire, and never answers.
type tap struct{ request *http.Request }

var errNobody = errors.New("nobody answers")

func (w *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	var sent bytes.Buffer
	if err := r.Write(&sent); err != nil {
		return nil, err
	}
	received, err := http.ReadRequest(bufio.NewReader(&sent))
	if err != nil {
		return nil, err
	}
	w.request = received
	return nil, errNobody
}

// noBooks is a meter that keeps nothing.
type noBooks struct{}

func (b noBooks) Reserve(context.Context, *outlier.Request) (outlier.Attempt, error) { return b, nil }
func (noBooks) Sending() error                                                       { return nil }
func (noBooks) Settle(*outlier.Answer, outlier.Outcome) error                        { return nil }

// onTheWire sends r by the client and returns what left.
func onTheWire(t *testing.T, r *outlier.Request) *http.Request {
	t.Helper()
	key, err := outlier.NewKey("k")
	if err != nil {
		t.Fatal(err)
	}
	var w tap
	client := outlier.Client{URL: "http://service.test", Key: key, Transport: &w}
	if _, err := client.Do(t.Context(), r, noBooks{}); !errors.Is(err, errNobody) {
		t.Fatalf("send %s: %v", r.Identity(), err)
	}
	return w.request
}

// checkOnTheWire holds what leaves for r against the contract, and names the
// parameters that it carries.
func checkOnTheWire(t *testing.T, r *outlier.Request) (parameters []string) {
	t.Helper()
	sent := onTheWire(t, r)
	parameters = slices.Collect(maps.Keys(sent.URL.Query()))
	var members map[string]any
	if sent.Method == http.MethodPost {
		body, err := io.ReadAll(sent.Body)
		if err := errors.Join(err, json.Unmarshal(body, &members)); err != nil {
			t.Fatalf("the body of %s: %v", r.Identity(), err)
		}
		parameters = slices.AppendSeq(parameters, maps.Keys(members))
		sent.Body = io.NopCloser(bytes.NewReader(body))
	}
	if op, err := openContract(t).judge(sent); err != nil || op != string(r.Op) {
		t.Fatalf("%s is sent as %s %s %v, by the contract %q: %v", r.Identity(), sent.Method, sent.URL, members, op, err)
	}
	return parameters
}

// A question is a parameter struct: it lists its fields, and has what makes a
// request of them.
type question struct {
	fields  []outlier.Field
	request func(from, size int) (*outlier.Request, error)
}

// questions are new ones for each operation that has parameters. What one cannot do
// without is there already.
var questions = map[outlier.Operation]func() question{
	outlier.OpSearch: func() question {
		var s outlier.Search
		return question{s.Fields(), s.Request}
	},
	outlier.OpRelated: func() question {
		r := outlier.Related{Title: []string{"a"}}
		return question{r.Fields(), r.Request}
	},
	outlier.OpFindChannels: func() question {
		var c outlier.FindChannels
		return question{c.Fields(), c.Request}
	},
	outlier.OpFindRelatedChannels: func() question {
		c := outlier.FindRelatedChannels{RelatedChannelID: []string{"UC1234567890abcdefghijkl"}}
		return question{c.Fields(), c.Request}
	},
	outlier.OpStartScan: func() question {
		s := outlier.StartScan{Query: []string{"UC1234567890abcdefghijkl"}} // also a query
		return question{s.Fields(), func(int, int) (*outlier.Request, error) { return s.Request() }}
	},
}

func TestEveryQuestionThatPassesTheCheckObeysTheContract(t *testing.T) {
	for _, op := range outlier.Operations() {
		if op.Fields() == nil {
			continue
		}
		t.Run(string(op), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { checkOnTheWire(t, draw(rt, questions[op]())) })

			// What is sent at least once is no matter of luck: these seeds are fixed.
			sent := map[string]bool{}
			one := rapid.Custom(func(rt *rapid.T) *outlier.Request { return draw(rt, questions[op]()) })
			for seed := range 50 {
				for _, name := range checkOnTheWire(t, one.Example(seed)) {
					sent[name] = true
				}
			}
			for name := range documentedForms(operation(t, string(op))) {
				if !sent[name] {
					t.Errorf("%s was never sent", name)
				}
			}
		})
	}
}

// draw fills a question in at random.
func draw(t *rapid.T, q question) *outlier.Request {
	for _, f := range q.fields {
		drawValid(t, f)
	}
	r, err := q.request(rapid.IntRange(0, 1<<53-1).Draw(t, "from"), rapid.IntRange(1, outlier.MaxSize).Draw(t, "size"))
	if err != nil {
		t.Fatalf("every field passes alone, but not together: %v", err)
	}
	return r
}

// drawValid sets a field to whatever its own check lets pass, so that a rule of
// the client that is wider than the contract's is found.
func drawValid(t *rapid.T, f outlier.Field) {
	switch v := f.Value.(type) {
	case *string:
		*v = valid(t, f, v, text(f))
	case *[]string:
		all := *v // what the question cannot do without
		for range rapid.IntRange(0, 3).Draw(t, f.Name+" length") {
			all = append(all, valid(t, f, v, rapid.SliceOfN(text(f), 1, 1))...)
		}
		*v = all
	case **bool:
		*v = rapid.Ptr(rapid.Bool(), true).Draw(t, f.Name)
	case *outlier.Range[int64]:
		drawRange(t, f, v, rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{-1, 0, 1, 60, 120, 121, 1<<53 - 1, 1 << 53})))
	case *outlier.Range[float64]:
		drawRange(t, f, v, rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{-1, 0, 5e-324, 0.5, 1e21})))
	case *outlier.Range[time.Time]:
		drawRange(t, f, v, rapid.Custom(func(t *rapid.T) time.Time {
			return time.Unix(rapid.Int64Range(-1e11, 3e11).Draw(t, "second"), 999).In(time.FixedZone("", rapid.IntRange(-5e4, 5e4).Draw(t, "zone")))
		}))
	default:
		t.Fatalf("%s is a %T", f.Name, v)
	}
}

// drawRange draws the ends one by one: most pairs would be the wrong way round.
func drawRange[T any](t *rapid.T, f outlier.Field, r *outlier.Range[T], end *rapid.Generator[T]) {
	r.From = valid(t, f, &r.From, rapid.Ptr(end, true))
	r.To = valid(t, f, &r.To, rapid.Ptr(end, true))
}

// valid draws a value that the field's check lets pass, or gives up with none.
func valid[T any](t *rapid.T, f outlier.Field, into *T, values *rapid.Generator[T]) (none T) {
	for range 8 {
		*into = values.Draw(t, f.Name)
		if len(f.Check()) == 0 {
			return *into
		}
	}
	return none
}

func text(f outlier.Field) *rapid.Generator[string] {
	all := []*rapid.Generator[string]{
		rapid.String(), rapid.StringMatching(`[a-z]{2}`), rapid.StringMatching(`[A-Za-z0-9_-]{24}`), rapid.StringMatching(`[A-Za-z0-9_-]{11}`),
		rapid.StringMatching(`\*?\p{Latin}.{0,3}\p{Latin}\*?`), rapid.SampledFrom([]string{"en", "de", "null", "*É ß*"}),
	}
	if len(f.OneOf) > 0 {
		all = append(all, rapid.SampledFrom(f.OneOf))
	}
	return rapid.OneOf(all...)
}

func TestEveryDataRequestObeysTheContract(t *testing.T) {
	for _, op := range outlier.Operations() {
		if !op.IsData() {
			continue
		}
		id := `[A-Za-z0-9_-]{11}`
		switch {
		case op == outlier.OpScan:
			id = `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}`
		case strings.HasPrefix(string(op), "channel_"):
			id = `[A-Za-z0-9_-]{24}`
		}
		t.Run(string(op), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				r, err := outlier.DataRequest(op, rapid.StringMatching(id).Draw(rt, "id"))
				if err != nil {
					rt.Fatal(err)
				}
				checkOnTheWire(t, r)
			})
		})
	}
}

func TestTrendingFormatsGoAsTheyAreWritten(t *testing.T) {
	ask := func(params url.Values) *outlier.Request {
		r, err := (&outlier.TrendingFormats{Params: params}).Request()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	checkOnTheWire(t, ask(nil))
	written := url.Values{"period": {"week"}, "size": {"1000"}, "tag[]": {"a", "b"}, "Ünknown": {""}}
	if diff := cmp.Diff(written, onTheWire(t, ask(written)).URL.Query()); diff != "" {
		t.Errorf("(-written +sent):\n%s", diff)
	}
}
