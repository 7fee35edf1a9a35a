package outlier_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	"outlierd/internal/testenv"
	"outlierd/outlier"
)

// tap records the request as it is sent, and never answers.
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

// noBooks is a meter that records nothing.
type noBooks struct{}

func (b noBooks) Reserve(context.Context, *outlier.Request) (outlier.Attempt, error) { return b, nil }
func (noBooks) Sending() error                                                       { return nil }
func (noBooks) Settle(*outlier.Answer, outlier.Outcome) error                        { return nil }

// onTheWire sends r by the client and returns the bytes that were sent.
func onTheWire(t *testing.T, r *outlier.Request) *http.Request {
	t.Helper()
	key, err := outlier.NewKey("k")
	if err != nil {
		t.Fatal(err)
	}
	var w tap
	client := outlier.Client{URL: "http://service.test", Key: key, Transport: &w}
	if _, err := client.Do(t.Context(), r, noBooks{}); !errors.Is(err, errNobody) {
		t.Fatalf("send %s: %v", r.Op(), err)
	}
	return w.request
}

// checkOnTheWire validates what is sent for r by the contract, and returns its parameters.
func checkOnTheWire(t *testing.T, r *outlier.Request) (parameters []string) {
	t.Helper()
	sent := onTheWire(t, r)
	parameters = slices.Collect(maps.Keys(sent.URL.Query()))
	var members map[string]any
	if sent.Method == http.MethodPost {
		body, err := io.ReadAll(sent.Body)
		if err := errors.Join(err, json.Unmarshal(body, &members)); err != nil {
			t.Fatalf("the body of %s: %v", r.Op(), err)
		}
		parameters = slices.AppendSeq(parameters, maps.Keys(members))
		sent.Body = io.NopCloser(bytes.NewReader(body))
	}
	if op, err := openContract(t).judge(sent); err != nil || op != string(r.Op()) {
		t.Fatalf("%s is sent as %s %s %v, by the contract %q: %v",
			r.Op(), sent.Method, sent.URL, members, op, err)
	}
	return parameters
}

// needed are the required parameters of an operation.
var needed = map[outlier.Operation]url.Values{
	outlier.OpRelated:             {"title": {"a"}},
	outlier.OpFindRelatedChannels: {"relatedChannelId": {"UC1234567890abcdefghijkl"}},
	outlier.OpStartScan:           {"query": {"UC1234567890abcdefghijkl"}}, // also a query
}

// Every request that passes the check obeys the contract on the wire.
func TestAcceptedRequestsObeyContract(t *testing.T) {
	testenv.RacesLittle(t)
	for _, op := range outlier.Operations() {
		if op.Params() == nil {
			continue
		}
		t.Run(string(op), func(t *testing.T) {
			sent := map[string]bool{}
			rapid.Check(t, func(rt *rapid.T) {
				for _, name := range checkOnTheWire(t, draw(rt, op)) {
					sent[name] = true
				}
			})
			for name := range documentedForms(operation(t, string(op))) {
				if !sent[name] {
					t.Errorf("%s was never sent", name)
				}
			}
		})
	}
}

// draw makes a request at random.
func draw(t *rapid.T, op outlier.Operation) *outlier.Request {
	params := url.Values{}
	maps.Copy(params, needed[op])
	for _, p := range op.Params() {
		drawValid(t, op, p, params)
	}
	if op.IsPaged() {
		params.Set("from", fmt.Sprint(rapid.IntRange(0, 1<<53-1).Draw(t, "from")))
		params.Set("size", fmt.Sprint(rapid.IntRange(1, outlier.MaxSize).Draw(t, "size")))
	}
	r, err := outlier.NewRequest(op, params, nil)
	if err != nil {
		t.Fatalf("every parameter passes alone, but not together: %v", err)
	}
	return r
}

// drawValid sets a parameter to whatever the constructor lets pass, so that a rule of
// the client that is wider than the contract's is found.
func drawValid(t *rapid.T, op outlier.Operation, p outlier.Param, params url.Values) {
	for _, name := range p.Names() {
		var values *rapid.Generator[string]
		switch p.Form {
		case outlier.Text, outlier.Texts:
			values = readText(p)
		case outlier.Flag:
			values = rapid.SampledFrom([]string{"true", "false", "1", "TRUE", ""})
		case outlier.Integers:
			edges := rapid.SampledFrom([]int64{-1, 0, 1, 60, 120, 121, 1<<53 - 1, 1 << 53})
			values = rapid.Map(rapid.OneOf(rapid.Int64(), edges), outlier.Integer)
		case outlier.Numbers:
			edges := rapid.SampledFrom([]float64{-1, 0, 5e-324, 0.5, 1e21})
			values = rapid.Map(rapid.OneOf(rapid.Float64(), edges), outlier.Number)
		case outlier.Instants:
			values = rapid.Map(rapid.Int64Range(-1e11, 3e11), func(second int64) string {
				return outlier.Instant(time.Unix(second, 999))
			})
		default:
			t.Fatalf("%s has the form %d", p.Name, p.Form)
		}
		old, given := params[name]
		for range rapid.IntRange(0, 3).Draw(t, name+" length") {
			valid(t, op, p, params, name, values)
		}
		if given {
			params[name] = append(params[name], old...) // what the operation cannot do without
		}
	}
}

// valid draws a value that the constructor lets pass, or gives up with none.
func valid(
	t *rapid.T, op outlier.Operation, p outlier.Param, params url.Values, name string,
	values *rapid.Generator[string],
) {
	old := params[name]
	for range 8 {
		params.Set(name, values.Draw(t, name))
		if p.Form == outlier.Texts {
			params[name] = append(slices.Clone(old), params[name]...)
		}
		if _, err := outlier.NewRequest(op, params, nil); err == nil {
			return
		}
	}
	if params[name] = old; old == nil {
		delete(params, name)
	}
}

func readText(p outlier.Param) *rapid.Generator[string] {
	all := []*rapid.Generator[string]{
		rapid.String(), rapid.StringMatching(`[a-z]{2}`), rapid.StringMatching(`[A-Za-z0-9_-]{24}`), rapid.StringMatching(`[A-Za-z0-9_-]{11}`),
		rapid.StringMatching(`\*?\p{Latin}.{0,3}\p{Latin}\*?`), rapid.SampledFrom([]string{"en", "de", "null", "*É ß*"}),
	}
	if len(p.OneOf) > 0 {
		all = append(all, rapid.SampledFrom(p.OneOf))
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

func TestTrendingFormatsAreSentAsWritten(t *testing.T) {
	ask := func(params url.Values) *outlier.Request {
		r, err := outlier.NewRequest(outlier.OpTrendingFormats, params, nil)
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
