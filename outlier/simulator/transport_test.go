package simulator

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
)

// outcome is what a client observes of a search.
type outcome struct {
	status int
	mime   string
	err    string // a key of connectionErrors, or ""
	json   bool   // whether the whole body is JSON
}

// connectionErrors are the errors of a connection, by their names in outcome.
var connectionErrors = map[string]error{
	"refused": syscall.ECONNREFUSED, "reset": syscall.ECONNRESET, "truncated": io.ErrUnexpectedEOF, "closed": io.EOF,
	"cancelled": context.Canceled,
}

// search makes a search and returns its outcome.
func search(t *testing.T, client *http.Client, base string) outcome {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := request(t, base+"/search/outliers?query=moka+pot").WithContext(ctx)
	resp, err := client.Do(r)
	if err != nil {
		return outcome{err: errorName(t, err)}
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	for err == nil {
		if _, err = io.CopyN(&body, resp.Body, 1); int64(body.Len()) == resp.ContentLength/2 && strings.Contains(t.Name(), "stall") {
			cancel() // the rest is never sent
		}
	}
	s := outcome{status: resp.StatusCode, mime: resp.Header.Get("Content-Type"), json: json.Valid(body.Bytes())}
	if !errors.Is(err, io.EOF) {
		s.err = errorName(t, err)
	}
	return s
}

func errorName(t *testing.T, err error) string {
	for name, target := range connectionErrors {
		if errors.Is(err, target) {
			return name
		}
	}
	t.Errorf("unexpected error %v", err)
	return err.Error()
}

// Faults are the same over the transport of the simulator and over HTTP.
func TestFaultsMatchOverBothTransports(t *testing.T) {
	const plain, html = "application/json; charset=utf-8", "text/html"
	tests := []struct {
		fault Fault
		want  outcome
		books Totals
	}{
		{Fault{name: "none", stage: beforeAnswer}, outcome{200, plain, "", true}, Totals{Served: 1, Charged: 2}},
		{slow(time.Nanosecond), outcome{200, plain, "", true}, Totals{Served: 1, Charged: 2}},
		{ServerError, outcome{500, plain, "", true}, Totals{Failed: 1, Charged: 2, Refunded: 2}},
		{GatewayPage, outcome{502, html, "", false}, Totals{Lost: 1, Charged: 2}},
		{GatewayJSON, outcome{504, mimeJSON, "", true}, Totals{Lost: 1, Charged: 2}},
		{HTMLPage, outcome{200, html + "; charset=utf-8", "", false}, Totals{Lost: 1, Charged: 2}},
		{Garbage, outcome{200, plain, "", false}, Totals{Lost: 1, Charged: 2}},
		{CutBody, outcome{200, plain, "truncated", false}, Totals{Lost: 1, Charged: 2}},
		{Stall, outcome{200, plain, "cancelled", false}, Totals{Lost: 1, Charged: 2}},
		{DropAnswer, outcome{err: "closed"}, Totals{Lost: 1, Charged: 2}},
		{DropRequest, outcome{err: "reset"}, Totals{Refused: 1}},
		{RateLimited, outcome{429, plain, "", true}, Totals{Refused: 1}},
		{Unauthorized, outcome{401, plain, "", true}, Totals{Refused: 1}},
		{NoCredits, outcome{402, plain, "", true}, Totals{Refused: 1}},
	}
	for _, tt := range tests {
		tt.books.Calls = 1
		check := func(t *testing.T, s *Service, client *http.Client, base string) {
			s.FailNext(outlier.OpSearch, tt.fault)
			if diff := cmp.Diff(tt.want, search(t, client, base), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.books, s.Books().Total); diff != "" {
				t.Errorf("books (-want +got):\n%s", diff)
			}
			if c := s.Books().Calls[0]; c.Fault != tt.fault.name || c.Status != tt.want.status {
				t.Errorf("logged %+v, want fault %q and status %d", c, tt.fault.name, tt.want.status)
			}
		}
		t.Run(tt.fault.String()+"/transport", func(t *testing.T) {
			s := unlimited(Options{Seed: 1})
			check(t, s, &http.Client{Transport: s.Transport()}, "http://service.test")
		})
		t.Run(tt.fault.String()+"/listener", func(t *testing.T) {
			s := unlimited(Options{Seed: 1})
			server := httptest.NewServer(s)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
			check(t, s, client, server.URL)
		})
	}
}

func TestUnreachableServiceReceivesNoCall(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	s.FailNext("", Unreachable)
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { t.Error("there was a connection") },
	})
	_, err := s.Transport().RoundTrip(request(t, "http://service.test/search/outliers").WithContext(ctx))
	if !errors.Is(err, syscall.ECONNREFUSED) || s.Books().Total.Calls != 0 {
		t.Errorf("got %v and %d calls, want a refused connection and none", err, s.Books().Total.Calls)
	}
}

// Faults apply in order, each to its operation.
func TestFaultsApplyInOrder(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	all := paths(t, s)
	s.FailNext(outlier.OpSearch, GatewayPage)
	s.FailNext(outlier.OpSearch, ServerError)
	s.FailNext("", HTMLPage)
	for _, step := range []struct {
		op   outlier.Operation
		want int
	}{{outlier.OpDetails, 200}, {outlier.OpSearch, 502}, {outlier.OpSearch, 500}, {outlier.OpSearch, 200}} {
		if resp, _ := askRaw(t, s.Transport(), all[step.op]); resp.StatusCode != step.want {
			t.Errorf("%s: status %d, want %d", step.op, resp.StatusCode, step.want)
		}
	}
}

func TestFaultWaitsForAValidCall(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	s.FailNext(outlier.OpSearch, GatewayPage)
	askRaw(t, s.Transport(), "/search/outliers?size=0")
	if resp, _ := askRaw(t, s.Transport(), paths(t, s)[outlier.OpSearch]); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("status %d after a call that was refused, want %d", resp.StatusCode, http.StatusBadGateway)
	}
}

// A call that is repeated after its answer was lost is free.
func TestRepeatAfterLossIsFree(t *testing.T) {
	for _, f := range []Fault{DropAnswer, GatewayPage, CutBody} {
		s := unlimited(Options{Seed: 1})
		s.FailNext(outlier.OpSearch, f)
		search(t, &http.Client{Transport: s.Transport()}, "http://service.test")
		search(t, &http.Client{Transport: s.Transport()}, "http://service.test")
		if got := s.Books().Total; got.Spent() != 2 || got.Cached != 1 || got.Served != 1 || got.Lost != 1 {
			t.Errorf("%s, then again: %+v, want one served, cached and lost, and 2 credits spent", f, got)
		}
	}
}

func TestRateLimitedFaultEndsWithWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		path := paths(t, s)[outlier.OpDetails]
		s.FailNext("", RateLimited)
		for range 2 {
			got, resp := ask[limited](t, s.Transport(), path)
			if rate := got.Error.RateLimit; resp.StatusCode != 429 || rate.Remaining != 0 || rate.Current <= 10 {
				t.Errorf("answer %d %+v, want 429 with none remaining", resp.StatusCode, got)
			}
		}
		time.Sleep(time.Minute)
		if resp, _ := askRaw(t, s.Transport(), path); resp.StatusCode != 200 {
			t.Errorf("status %d after the window, want 200", resp.StatusCode)
		}
	})
}

func TestLatencyPassesInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1, Latency: func() time.Duration { return 2 * time.Second }})
		s.FailNext("", slow(time.Minute))
		start := time.Now()
		askRaw(t, s.Transport(), "/search/outliers")
		if took := time.Since(start); took != 62*time.Second {
			t.Errorf("took %s, want 62s", took)
		}
	})
}

func TestTimedOutCallIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		s.FailNext("", slow(time.Hour))
		client := &http.Client{Transport: s.Transport(), Timeout: 10 * time.Second}
		_, err := client.Do(request(t, "http://service.test/search/outliers"))
		if !errors.Is(err, context.DeadlineExceeded) || s.Books().Total.Spent() != 2 {
			t.Errorf("got %v, %d credits spent; want a timeout and 2", err, s.Books().Total.Spent())
		}
	})
}

// A call that is cancelled in GotConn is not sent.
func TestGotConnCanCancelCall(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	refused := errors.New("the ledger refuses")
	ctx, cancel := context.WithCancelCause(t.Context())
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			if s.Books().Total.Calls != 0 {
				t.Error("the request was sent before GotConn")
			}
			cancel(refused)
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { t.Error("the request was sent") },
	})
	_, err := s.Transport().RoundTrip(request(t, "http://service.test/search/outliers").WithContext(ctx))
	if !errors.Is(err, refused) || s.Books().Total.Calls != 0 {
		t.Errorf("got %v and %d calls, want %v and none", err, s.Books().Total.Calls, refused)
	}
}

func TestAnswersAreCompressedOnRequestOnly(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	path := paths(t, s)[outlier.OpTranscript]
	_, want := askRaw(t, s.Transport(), path)
	for accept, zipped := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "identity": false, "*": false,
	} {
		r := request(t, "http://service.test"+path)
		r.Header.Set("Accept-Encoding", accept)
		resp, err := s.Transport().RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if got := resp.Header.Get("Content-Encoding") == "gzip"; got != zipped || resp.ContentLength != int64(len(body)) {
			t.Errorf("Accept-Encoding %q: gzip: %t, %d bytes, Content-Length %d; want gzip: %t",
				accept, got, len(body), resp.ContentLength, zipped)
		}
		if zipped {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			body, _ = io.ReadAll(z)
		}
		if !bytes.Equal(body, want) {
			t.Errorf("Accept-Encoding %q: the body differs from the one without compression", accept)
		}
	}
}

func TestDateHeaderIsTheServicesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		time.Sleep(90 * time.Second)
		resp, _ := askRaw(t, s.Transport(), "/search/outliers")
		if got, want := resp.Header.Get("Date"), "Sat, 01 Jan 2000 00:01:30 GMT"; got != want {
			t.Errorf("Date: %s, want %s", got, want)
		}
	})
}

func TestFrozenAnswersAreIdenticalBytes(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	for op, path := range paths(t, s) {
		_, a := askRaw(t, unlimited(Options{Seed: 1}).Transport(), path)
		_, b := askRaw(t, s.Transport(), path)
		_, again := askRaw(t, s.Transport(), path)
		if !bytes.Equal(a, b) || !bytes.Equal(b, again) {
			t.Errorf("%s: two services, or two calls, got different answers", op)
		}
	}
}

func TestOtherProcessesCanReadBooks(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	server := httptest.NewServer(s)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	search(t, client, server.URL)
	resp, err := client.Do(request(t, server.URL+"/_simulator/books"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got Books
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Books(), got); diff != "" || got.Total.Calls != 1 {
		t.Errorf("%d calls, want 1; books over HTTP (-want +got):\n%s", got.Total.Calls, diff)
	}
	anonymous, err := client.Get(server.URL + "/_simulator/books")
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Body.Close()
	if anonymous.StatusCode != http.StatusUnauthorized {
		t.Errorf("books without the key: status %d, want %d", anonymous.StatusCode, http.StatusUnauthorized)
	}
}

// The books can be read through the transport of the simulator, without a network.
func TestBooksNeedNoNetwork(t *testing.T) {
	s := unlimited(Options{Seed: 1})
	if got, resp := ask[Books](t, s.Transport(), "/_simulator/books"); resp.StatusCode != 200 || got.Total.Calls != 0 {
		t.Errorf("answer %d %+v, want 200 and no calls", resp.StatusCode, got)
	}
}

// slow is [Slow] with another delay.
func slow(delay time.Duration) Fault {
	f := Slow
	f.delay = delay
	return f
}
