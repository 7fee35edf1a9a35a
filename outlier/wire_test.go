package outlier_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

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

func checkOnTheWire(t *testing.T, r *outlier.Request) *http.Request {
	t.Helper()
	sent := onTheWire(t, r)
	if op, err := openContract(t).judge(sent); err != nil || op != string(r.Op) {
		t.Fatalf("%s is sent as GET %s, by the contract %q: %v", r.Identity(), sent.URL, op, err)
	}
	return sent
}

func TestEverySearchThatPassesTheCheckObeysTheContract(t *testing.T) {
	sent := map[string]bool{}
	rapid.Check(t, func(rt *rapid.T) {
		var s outlier.Search
		for _, f := range s.Fields() {
			drawValid(rt, f)
		}
		r, err := s.Request(rapid.IntRange(0, 1<<53-1).Draw(rt, "from"), rapid.IntRange(1, outlier.MaxSize).Draw(rt, "size"))
		if err != nil {
			rt.Fatalf("every field passes alone, but not together: %v", err)
		}
		for name := range checkOnTheWire(t, r).URL.Query() {
			sent[name] = true
		}
	})
	for _, p := range operation(t, "search").Parameters {
		if !sent[p.Value.Name] {
			t.Errorf("no search had %s", p.Value.Name)
		}
	}
}

// drawValid sets a field to whatever its own check lets pass, so that a rule of
// the client that is wider than the contract's is found.
func drawValid(t *rapid.T, f outlier.Field) {
	switch v := f.Value.(type) {
	case *string:
		*v = valid(t, f, v, text(f))
	case *[]string:
		var all []string
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
		rapid.String(), rapid.StringMatching(`[a-z]{2}`), rapid.StringMatching(`[A-Za-z0-9_-]{24}`),
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
		length := 11
		if strings.HasPrefix(string(op), "channel_") {
			length = 24
		}
		t.Run(string(op), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				r, err := outlier.DataRequest(op, rapid.StringMatching(fmt.Sprintf(`[A-Za-z0-9_-]{%d}`, length)).Draw(rt, "id"))
				if err != nil {
					rt.Fatal(err)
				}
				checkOnTheWire(t, r)
			})
		})
	}
}
