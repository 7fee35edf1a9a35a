package simulator

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"outlierd/outlier"
)

// purse is a meter that keeps nothing but the last outcome.
type purse struct{ outcome outlier.Outcome }

func (p *purse) Reserve(context.Context, *outlier.Request) (outlier.Attempt, error) { return p, nil }
func (p *purse) Sending() error                                                     { return nil }
func (p *purse) Settle(_ *outlier.Answer, o outlier.Outcome) error {
	p.outcome = o
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

func TestClientNeverTakesForRefundedWhatWasCharged(t *testing.T) {
	for _, f := range []Fault{
		Slow(0), ServerError, GatewayPage, HTMLPage, Garbage, DropAnswer, CutBody, DropRequest, RateLimited, Unauthorized, NoCredits, Unreachable,
	} {
		s := unhurried(Options{Seed: 1})
		s.FailNext("", f)
		r, err := new(outlier.Search).Request(0, 40)
		if err != nil {
			t.Fatal(err)
		}
		var p purse
		_, err = clientOf(t, s).Do(t.Context(), r, &p)
		spent := s.Books().Total.Spent()
		if p.outcome == outlier.Refunded && spent != 0 || p.outcome == outlier.Charged && spent != 2 || (err == nil) != (f == Slow(0)) {
			t.Errorf("%s: the client books %q (%v), the service charged %d", f, p.outcome, err, spent)
		}
	}
}

func TestWhatTheClientLetsPassTheServiceAccepts(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	client := clientOf(t, s)
	passed := 0
	rapid.Check(t, func(rt *rapid.T) {
		var search outlier.Search
		for range rapid.IntRange(1, 4).Draw(rt, "fields") {
			drawField(rt, rapid.SampledFrom(search.Fields()).Draw(rt, "field"))
		}
		r, err := search.Request(rapid.IntRange(0, 3).Draw(rt, "from"), rapid.IntRange(1, 40).Draw(rt, "size"))
		if err != nil {
			return // refused before anything was sent
		}
		passed++
		if _, err := client.Do(t.Context(), r, new(purse)); err != nil {
			rt.Fatalf("%v is answered %v", r.Params, err)
		}
	})
	if unknown := s.Books().UnknownParams; len(unknown) > 0 || passed == 0 {
		t.Errorf("%d searches passed, with unknown parameters %v", passed, unknown)
	}
}

// drawField sets a field to something near the bounds of its rule.
func drawField(t *rapid.T, f outlier.Field) {
	switch v := f.Value.(type) {
	case *string:
		*v = rapid.SampledFrom(append([]string{"", "x", "*a", "*ab", "É*é", "null"}, f.OneOf...)).Draw(t, f.Name)
	case *[]string:
		*v = rapid.SliceOfN(rapid.SampledFrom([]string{"en", "de", "EN", "", "moka pot", "\x00", "a,b&c=d"}), 0, 3).Draw(t, f.Name)
	case **bool:
		*v = new(rapid.Bool().Draw(t, f.Name))
	case *outlier.Range[int64]:
		v.From = drawBound(t, f.Name, []int64{-1, 0, 1, 120, maxInteger, maxInteger + 1})
		v.To = drawBound(t, f.Name, []int64{-1, 0, 1, 120, 121, maxInteger, maxInteger + 1})
	case *outlier.Range[float64]:
		v.From = drawBound(t, f.Name, []float64{-1, 0, 1e-9, 2.5, 1e21, 1e300})
		v.To = drawBound(t, f.Name, []float64{-1, 0, 1e-9, 2.5, 1e21, 1e300})
	case *outlier.Range[time.Time]:
		v.From = drawBound(t, f.Name, []time.Time{Epoch, Epoch.Add(time.Nanosecond), Epoch.In(time.FixedZone("", 3600))})
		v.To = drawBound(t, f.Name, []time.Time{Epoch, Epoch.Add(time.Hour), time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)})
	default:
		t.Fatalf("%s is a %T", f.Name, v)
	}
}

func drawBound[T any](t *rapid.T, name string, of []T) *T {
	if rapid.Bool().Draw(t, name+" open") {
		return nil
	}
	return new(rapid.SampledFrom(of).Draw(t, name+" bound"))
}
