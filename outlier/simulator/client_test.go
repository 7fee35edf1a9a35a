package simulator

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"pgregory.net/rapid"

	"outlierd/outlier"
)

// meter is an [outlier.Meter] that records the last outcome.
type meter struct{ outcome outlier.Outcome }

func (m *meter) Reserve(context.Context, *outlier.Request) (outlier.Attempt, error) { return m, nil }
func (m *meter) Sending() error                                                     { return nil }
func (m *meter) Settle(_ *outlier.Answer, o outlier.Outcome) error {
	m.outcome = o
	return nil
}

func clientOf(t *testing.T, s *Service) *outlier.Client {
	t.Helper()
	key, err := outlier.NewKey("demo")
	if err != nil {
		t.Fatal(err)
	}
	return &outlier.Client{URL: "http://service.test", Key: key, Transport: s.Transport(), Timeout: time.Second}
}

// Whatever the fault, the client never books a charge as refunded.
func TestClientNeverRefundsCharge(t *testing.T) {
	search := requestFor(t, outlier.OpSearch, url.Values{"from": {"0"}, "size": {"40"}})
	scan := requestFor(t, outlier.OpStartScan, url.Values{"query": {"moka pot"}})
	for _, f := range []Fault{
		slow(0), ServerError, GatewayPage, GatewayJSON, HTMLPage, Garbage, DropAnswer, CutBody, DropRequest, RateLimited,
		Unauthorized, NoCredits, Unreachable,
	} {
		for _, r := range []*outlier.Request{search, scan} {
			s := unlimited(Options{Seed: 1})
			s.FailNext("", f)
			var m meter
			_, err := clientOf(t, s).Do(t.Context(), r, &m)
			spent := s.Books().Total.Spent()
			if m.outcome == outlier.Refunded && spent != 0 || m.outcome == outlier.Charged && spent != r.Price() ||
				(err == nil) != (f == slow(0)) {
				t.Errorf("%s, %s: the client books %q (%v), the service charged %d credits", r.Op(), f, m.outcome, err, spent)
			}
		}
	}
}

// requestFor returns a request at the documented price.
func requestFor(t *testing.T, op outlier.Operation, params url.Values) *outlier.Request {
	t.Helper()
	r, err := outlier.NewRequest(op, params, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// obeying passes on requests that obey the contract.
type obeying struct {
	http.RoundTripper
	*contract
}

func (o obeying) RoundTrip(r *http.Request) (*http.Response, error) {
	in, err := o.request(r)
	if err == nil {
		err = openapi3filter.ValidateRequest(r.Context(), in)
	}
	if err != nil {
		return nil, err
	}
	return o.RoundTripper.RoundTrip(r)
}

func TestServiceAndContractAcceptClientRequests(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	client := clientOf(t, s)
	client.Transport = obeying{client.Transport, openContract(t)}
	channel := []string{"UCaaaaaaaaaaaaaaaaaaaaaa"}
	for op, needed := range map[outlier.Operation]url.Values{
		outlier.OpSearch:              nil,
		outlier.OpRelated:             {"title": {"moka pot"}},
		outlier.OpFindChannels:        nil,
		outlier.OpFindRelatedChannels: {"relatedChannelId": channel},
		outlier.OpStartScan:           {"query": channel},
	} {
		ask := func(rt *rapid.T) (passed bool) {
			params := url.Values{}
			maps.Copy(params, needed)
			for range rapid.IntRange(0, 4).Draw(rt, "parameters") {
				drawParam(rt, rapid.SampledFrom(op.Params()).Draw(rt, "parameter"), params)
			}
			if op != outlier.OpStartScan {
				params.Set("from", outlier.Integer(rapid.Int64Range(0, 3).Draw(rt, "from")))
				params.Set("size", outlier.Integer(rapid.Int64Range(1, 40).Draw(rt, "size")))
			}
			r, err := outlier.NewRequest(op, params, nil)
			if err != nil {
				return false // refused before anything was sent
			}
			if _, err := client.Do(t.Context(), r, new(meter)); err != nil {
				t.Fatalf("%s %v: %v", r.Op(), r.Params(), err)
			}
			calls, want := s.Books().Calls, strings.Join([]string{string(op), "", r.Params().Encode()}, " ")
			if got := calls[len(calls)-1].Identity; got != want {
				t.Fatalf("the service's identity is %q, the client's %q", got, want)
			}
			return true
		}
		rapid.Check(t, func(rt *rapid.T) { ask(rt) })

		passed, one := 0, rapid.Custom(ask) // with fixed seeds, so that the number that pass is constant
		for seed := range 20 {
			if one.Example(seed) {
				passed++
			}
		}
		if passed < 5 {
			t.Errorf("the client accepted %d of 20 requests for %s, want at least 5", passed, op)
		}
	}
	if unknown := s.Books().UnknownParams; len(unknown) > 0 {
		t.Errorf("unknown parameters %v, want none", unknown)
	}
}

func TestClientReadsEveryScanStatus(t *testing.T) {
	for status, want := range map[string]struct{ ended, succeeded bool }{
		"Queued": {}, "Running": {}, "Suspended": {}, "ContinuedAsNew": {},
		"Completed": {true, true}, "Failed": {true, false}, "Terminated": {true, false},
	} {
		s := unlimited(Options{Seed: 1, Scans: course(Phase{Status: status})})
		start := requestFor(t, outlier.OpStartScan, url.Values{"query": {"moka pot"}, "mode": {outlier.ModeStandard}})
		answer, err := clientOf(t, s).Do(t.Context(), start, new(meter))
		if err != nil {
			t.Fatal(err)
		}
		got, err := outlier.ReadScan(answer.Body)
		if err != nil || got.Ended() != want.ended || got.Succeeded() != want.succeeded || *got.OutlierVideos != 2500 {
			t.Errorf("%s is read as %+v, %v; want %+v", status, got, err, want)
		}
		again, err := outlier.DataRequest(outlier.OpScan, got.ID)
		if err != nil {
			t.Fatal(err)
		}
		if answer, err = clientOf(t, s).Do(t.Context(), again, new(meter)); err != nil {
			t.Fatal(err)
		}
		if reread, err := outlier.ReadScan(answer.Body); err != nil || reread.ID != got.ID || reread.Status != status {
			t.Errorf("%s, read again, is %+v, %v; want scan %s", status, reread, err, got.ID)
		}
		if spent := s.Books().Total.Spent(); spent != start.Price() {
			t.Errorf("spent %d credits, want %d", spent, start.Price())
		}
	}
}

// drawParam sets a parameter to a value near the bounds of its rule.
func drawParam(t *rapid.T, p outlier.Param, params url.Values) {
	values := []string{"", "x", "*a", "*ab", "É*é", "null"}
	switch p.Form {
	case outlier.Text:
		values = append(values, p.OneOf...)
	case outlier.Texts:
		texts := rapid.SampledFrom([]string{
			"en", "de", "EN", "", "moka pot", "\x00", "a,b&c=d", "dQw4w9WgXcQ", "UCaaaaaaaaaaaaaaaaaaaaaa",
		})
		params[p.Name] = rapid.SliceOfN(texts, 0, 3).Draw(t, p.Name)
		return
	case outlier.Flag:
		values = []string{"true", "false"}
	case outlier.Integers:
		values = formatAll(outlier.Integer, -1, 0, 1, 120, 121, noThreshold, noThreshold+1)
	case outlier.Numbers:
		values = formatAll(outlier.Number, -1, 0, 1e-9, 2.5, 1e21, 1e300)
	case outlier.Instants:
		values = formatAll(outlier.Instant, Epoch, Epoch.Add(time.Nanosecond), Epoch.Add(time.Hour),
			Epoch.In(time.FixedZone("", 3600)), time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC))
	}
	for _, name := range p.Names() {
		if rapid.Bool().Draw(t, name+" given") {
			params.Set(name, rapid.SampledFrom(values).Draw(t, name))
		}
	}
}

func formatAll[T any](format func(T) string, values ...T) (all []string) {
	for _, v := range values {
		all = append(all, format(v))
	}
	return all
}
