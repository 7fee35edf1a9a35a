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

// seen is what a client sees of a search.
type seen struct {
	status int
	mime   string
	err    string // "", or which error
	json   bool   // the whole body is JSON
}

// errorsSeen are the errors of a connection, by the name in seen.
var errorsSeen = map[string]error{
	"refused": syscall.ECONNREFUSED, "reset": syscall.ECONNRESET, "cut": io.ErrUnexpectedEOF, "closed": io.EOF, "gave up": context.Canceled,
}

func see(t *testing.T, client *http.Client, base string) seen {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := request(t, base+"/search/outliers?query=moka+pot").WithContext(ctx)
	resp, err := client.Do(r)
	if err != nil {
		return seen{err: errorName(t, err)}
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	for err == nil {
		if _, err = io.CopyN(&body, resp.Body, 1); int64(body.Len()) == resp.ContentLength/2 && strings.Contains(t.Name(), "stall") {
			cancel() // nothing more will come
		}
	}
	s := seen{status: resp.StatusCode, mime: resp.Header.Get("Content-Type"), json: json.Valid(body.Bytes())}
	if !errors.Is(err, io.EOF) {
		s.err = errorName(t, err)
	}
	return s
}

func errorName(t *testing.T, err error) string {
	for name, is := range errorsSeen {
		if errors.Is(err, is) {
			return name
		}
	}
	t.Errorf("unexpected error %v", err)
	return err.Error()
}

func TestFaultsLookTheSameThroughBothDoors(t *testing.T) {
	const plain, html = "application/json; charset=utf-8", "text/html"
	tests := []struct {
		fault Fault
		want  seen
		books Totals
	}{
		{Fault{name: "none", stage: beforeAnswer}, seen{200, plain, "", true}, Totals{Served: 1, Charged: 2}},
		{Slow(time.Nanosecond), seen{200, plain, "", true}, Totals{Served: 1, Charged: 2}},
		{ServerError, seen{500, plain, "", true}, Totals{Failed: 1, Charged: 2, Refunded: 2}},
		{GatewayPage, seen{502, html, "", false}, Totals{Lost: 1, Charged: 2}},
		{GatewayJSON, seen{504, mimeJSON, "", true}, Totals{Lost: 1, Charged: 2}},
		{HTMLPage, seen{200, html + "; charset=utf-8", "", false}, Totals{Lost: 1, Charged: 2}},
		{Garbage, seen{200, plain, "", false}, Totals{Lost: 1, Charged: 2}},
		{CutBody, seen{200, plain, "cut", false}, Totals{Lost: 1, Charged: 2}},
		{Stall, seen{200, plain, "gave up", false}, Totals{Lost: 1, Charged: 2}},
		{DropAnswer, seen{err: "closed"}, Totals{Lost: 1, Charged: 2}},
		{DropRequest, seen{err: "reset"}, Totals{Refused: 1}},
		{RateLimited, seen{429, plain, "", true}, Totals{Refused: 1}},
		{Unauthorized, seen{401, plain, "", true}, Totals{Refused: 1}},
		{NoCredits, seen{402, plain, "", true}, Totals{Refused: 1}},
	}
	for _, tt := range tests {
		tt.books.Calls = 1
		check := func(t *testing.T, s *Service, client *http.Client, base string) {
			s.FailNext(outlier.OpSearch, tt.fault)
			if diff := cmp.Diff(tt.want, see(t, client, base), cmp.AllowUnexported(seen{})); diff != "" {
				t.Errorf("seen:\n%s", diff)
			}
			if diff := cmp.Diff(tt.books, s.Books().Total); diff != "" {
				t.Errorf("booked:\n%s", diff)
			}
			if c := s.Books().Calls[0]; c.Fault != tt.fault.name || c.Status != tt.want.status {
				t.Errorf("logged %+v", c)
			}
		}
		t.Run(tt.fault.String()+"/transport", func(t *testing.T) {
			s := unhurried(Options{Seed: 1})
			check(t, s, &http.Client{Transport: s.Transport()}, "http://service.test")
		})
		t.Run(tt.fault.String()+"/listener", func(t *testing.T) {
			s := unhurried(Options{Seed: 1})
			server := httptest.NewServer(s)
			defer server.Close()
			check(t, s, &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}, server.URL)
		})
	}
}

func TestUnreachableServiceNeverHearsOfTheCall(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	s.FailNext("", Unreachable)
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { t.Error("there was a connection") },
	})
	_, err := s.Transport().RoundTrip(request(t, "http://service.test/search/outliers").WithContext(ctx))
	if !errors.Is(err, syscall.ECONNREFUSED) || s.Books().Total.Calls != 0 {
		t.Errorf("got %v and %d calls, want a refused connection and none", err, s.Books().Total.Calls)
	}
}

func TestFaultsStrikeInOrderAndOnlyTheirOperation(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	all := paths(t, s)
	s.FailNext(outlier.OpSearch, GatewayPage)
	s.FailNext(outlier.OpSearch, ServerError)
	s.FailNext("", HTMLPage)
	for _, step := range []struct {
		op   outlier.Operation
		want int
	}{{outlier.OpDetails, 200}, {outlier.OpSearch, 502}, {outlier.OpSearch, 500}, {outlier.OpSearch, 200}} {
		if resp, _ := askRaw(t, s.Transport(), all[step.op]); resp.StatusCode != step.want {
			t.Errorf("%s is answered %d, want %d", step.op, resp.StatusCode, step.want)
		}
	}
}

func TestFaultWaitsForACallThatComesFarEnough(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	s.FailNext(outlier.OpSearch, GatewayPage)
	askRaw(t, s.Transport(), "/search/outliers?size=0")
	if resp, _ := askRaw(t, s.Transport(), paths(t, s)[outlier.OpSearch]); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("answered %d, want the fault after a call that was refused", resp.StatusCode)
	}
}

func TestLostAnswerIsFreeToAskForAgain(t *testing.T) {
	for _, f := range []Fault{DropAnswer, GatewayPage, CutBody} {
		s := unhurried(Options{Seed: 1})
		s.FailNext(outlier.OpSearch, f)
		see(t, &http.Client{Transport: s.Transport()}, "http://service.test")
		see(t, &http.Client{Transport: s.Transport()}, "http://service.test")
		if got := s.Books().Total; got.Spent() != 2 || got.Cached != 1 || got.Served != 1 || got.Lost != 1 {
			t.Errorf("%s, then again: %+v", f, got)
		}
	}
}

func TestRateLimitedFaultLastsUntilTheWindowEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		path := paths(t, s)[outlier.OpDetails]
		s.FailNext("", RateLimited)
		for range 2 {
			if got, resp := ask[limited](t, s.Transport(), path); resp.StatusCode != 429 || got.Error.RateLimit.Remaining != 0 || got.Error.RateLimit.Current <= 10 {
				t.Errorf("answered %d %+v", resp.StatusCode, got)
			}
		}
		time.Sleep(time.Minute)
		if resp, _ := askRaw(t, s.Transport(), path); resp.StatusCode != 200 {
			t.Errorf("answered %d after the window", resp.StatusCode)
		}
	})
}

func TestLatencyAndSlownessPassInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1, Latency: func() time.Duration { return 2 * time.Second }})
		s.FailNext("", Slow(time.Minute))
		start := time.Now()
		askRaw(t, s.Transport(), "/search/outliers")
		if took := time.Since(start); took != 62*time.Second {
			t.Errorf("took %s, want 62s", took)
		}
	})
}

func TestImpatientClientIsChargedForWhatItDidNotAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		s.FailNext("", Slow(time.Hour))
		client := &http.Client{Transport: s.Transport(), Timeout: 10 * time.Second}
		_, err := client.Do(request(t, "http://service.test/search/outliers"))
		if !errors.Is(err, context.DeadlineExceeded) || s.Books().Total.Spent() != 2 {
			t.Errorf("got %v, spent %d; want a time-out and 2", err, s.Books().Total.Spent())
		}
	})
}

func TestClientMayWithdrawOnceItHasAConnection(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	withdrawn := errors.New("the ledger refuses")
	ctx, cancel := context.WithCancelCause(t.Context())
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			if s.Books().Total.Calls != 0 {
				t.Error("the request was sent before GotConn")
			}
			cancel(withdrawn)
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { t.Error("the request was sent") },
	})
	_, err := s.Transport().RoundTrip(request(t, "http://service.test/search/outliers").WithContext(ctx))
	if !errors.Is(err, withdrawn) || s.Books().Total.Calls != 0 {
		t.Errorf("got %v and %d calls, want %v and none", err, s.Books().Total.Calls, withdrawn)
	}
}

func TestAnswersAreCompressedOnRequestOnly(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	path := paths(t, s)[outlier.OpTranscript]
	_, want := askRaw(t, s.Transport(), path)
	for accept, zipped := range map[string]bool{"gzip": true, "br, gzip;q=0.5": true, "identity": false, "gzip;q=0": false, "*": false} {
		r := request(t, "http://service.test"+path)
		r.Header.Set("Accept-Encoding", accept)
		resp, err := s.Transport().RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if got := resp.Header.Get("Content-Encoding") == "gzip"; got != zipped || resp.ContentLength != int64(len(body)) {
			t.Errorf("Accept-Encoding %q: gzip %v, %d bytes of %d", accept, got, len(body), resp.ContentLength)
		}
		if zipped {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			body, _ = io.ReadAll(z)
		}
		if !bytes.Equal(body, want) {
			t.Errorf("Accept-Encoding %q: another answer", accept)
		}
	}
}

func TestDateIsTheServicesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Seed: 1})
		time.Sleep(90 * time.Second)
		resp, _ := askRaw(t, s.Transport(), "/search/outliers")
		if got := resp.Header.Get("Date"); got != "Sat, 01 Jan 2000 00:01:30 GMT" {
			t.Errorf("Date: %s", got)
		}
	})
}

func TestFrozenAnswersAreIdenticalBytes(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	for op, path := range paths(t, s) {
		_, a := askRaw(t, unhurried(Options{Seed: 1}).Transport(), path)
		_, b := askRaw(t, s.Transport(), path)
		_, again := askRaw(t, s.Transport(), path)
		if !bytes.Equal(a, b) || !bytes.Equal(b, again) {
			t.Errorf("%s: frozen answers differ", op)
		}
	}
}

func TestBooksCanBeReadByAnotherProcess(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	server := httptest.NewServer(s)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	see(t, client, server.URL)
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
		t.Errorf("books over HTTP differ:\n%s", diff)
	}
	anonymous, err := client.Get(server.URL + "/_simulator/books")
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Body.Close()
	if anonymous.StatusCode != http.StatusUnauthorized {
		t.Errorf("books without the key: %d", anonymous.StatusCode)
	}
}

func TestBooksCanBeReadWithoutANetwork(t *testing.T) {
	s := unhurried(Options{Seed: 1})
	if got, resp := ask[Books](t, s.Transport(), "/_simulator/books"); resp.StatusCode != 200 || got.Total.Calls != 0 {
		t.Errorf("answered %d %+v", resp.StatusCode, got)
	}
}
