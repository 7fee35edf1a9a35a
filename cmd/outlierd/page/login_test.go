package page

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const token = "CANARY-4711-CANARY"

// tokened is a site that a token logs in to, and that does what it is asked for.
func tokened(t *testing.T, does func(Action) (*Done, error)) *Site {
	return New(t.Context(), Sources{
		Offer: func(_ context.Context, a Action) (*Offer, error) {
			return &Offer{Title: "Run coffee", Says: []string{"coffee: at most 5 credits"}, Button: "Run it", Seen: "h1"}, nil
		},
		Do: func(_ context.Context, a Action) (*Done, error) { return does(a) },
	}, token, slog.New(slog.DiscardHandler))
}

// cookieOf is the session that an answer gives.
func cookieOf(t *testing.T, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	for _, c := range w.Result().Cookies() {
		if c.Name == cookieName && c.MaxAge > 0 {
			return c
		}
	}
	t.Fatalf("HTTP %d without a session: %s", w.Code, w.Body)
	return nil
}

// loggedIn adds a session to a request.
func loggedIn(t *testing.T, s *Site, r *http.Request) *http.Request {
	t.Helper()
	r.AddCookie(cookieOf(t, answer(s, s.Ticket())))
	return r
}

// post is a form as a browser sends it.
func post(path string, form url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func TestTicketLogsInOnceAndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tokened(t, nil)
		ticket := s.Ticket()
		w := answer(s, ticket)
		c := cookieOf(t, w)
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || w.Header().Get("Refresh") != "0;url=/" {
			t.Errorf("%+v", c)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(c)
		if !s.Knows(r) {
			t.Error("the session is not known")
		}
		if w := answer(s, ticket); w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
			t.Errorf("the second time: HTTP %d", w.Code)
		}
		late := s.Ticket()
		time.Sleep(ticketLife)
		if w := answer(s, late); w.Code != http.StatusForbidden {
			t.Errorf("a minute later: HTTP %d", w.Code)
		}
		time.Sleep(sessionLife)
		if s.Knows(r) {
			t.Error("the session has no end")
		}
	})
}

func TestOnlyTheTokenLogsIn(t *testing.T) {
	s := tokened(t, nil)
	for _, wrong := range []string{"", "x", token + "x", token[1:]} {
		w := answerTo(s, post("/login", url.Values{"token": {wrong}, "to": {"/runs"}}))
		if w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 || strings.Contains(w.Body.String(), "CANARY") {
			t.Errorf("%q: HTTP %d %s", wrong, w.Code, w.Body)
		}
	}
	w := answerTo(s, post("/login", url.Values{"token": {token}, "to": {"/runs?job=a"}}))
	if cookieOf(t, w); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/runs?job=a" {
		t.Errorf("HTTP %d to %s", w.Code, w.Header().Get("Location"))
	}
	none := siteOf(t, Sources{})
	if w := answerTo(none, post("/login", url.Values{"token": {""}})); w.Code != http.StatusForbidden {
		t.Errorf("where there is no token: HTTP %d", w.Code)
	}
}

// TestLoginLeadsToNoOtherSite, whatever the form says.
func TestLoginLeadsToNoOtherSite(t *testing.T) {
	for _, to := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/\t/evil.example", "javascript:alert(1)", ""} {
		w := answerTo(tokened(t, nil), post("/login", url.Values{"token": {token}, "to": {to}}))
		if got := w.Header().Get("Location"); got != "/" {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}

// TestTwoHundredLogins are refused after the first few, and a person who waits gets in.
func TestTwoHundredLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tokened(t, nil)
		codes := map[int]int{}
		for range 100 {
			codes[answerTo(s, post("/login", url.Values{"token": {"guess"}})).Code]++
			codes[answer(s, "/login?ticket=guess").Code]++
		}
		if codes[http.StatusForbidden] != guesses || codes[http.StatusTooManyRequests] != 200-guesses {
			t.Errorf("answers by status: %v", codes)
		}
		if w := answerTo(s, post("/login", url.Values{"token": {token}})); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("the right token among guesses: HTTP %d", w.Code)
		}
		cookieOf(t, answer(s, s.Ticket())) // a ticket cannot be guessed, so it is not limited
		time.Sleep(guessEvery)
		cookieOf(t, answerTo(s, post("/login", url.Values{"token": {token}})))
	})
}

func TestSessionsAreBounded(t *testing.T) {
	s := tokened(t, nil)
	first := loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/", nil))
	for range 2 * mostKnown {
		s.Ticket()
		cookieOf(t, answer(s, s.Ticket()))
	}
	if len(s.logins.sessions) > mostKnown || len(s.logins.tickets) > mostKnown || s.Knows(first) {
		t.Errorf("%d sessions and %d tickets, the first is known: %t", len(s.logins.sessions), len(s.logins.tickets), s.Knows(first))
	}
}

func TestLogoutEndsTheSession(t *testing.T) {
	s := tokened(t, nil)
	r := loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/login", nil))
	form := between(answerTo(s, r).Body.String(), `name="form" value="`, `"`)
	for _, c := range []struct {
		form  string
		known bool
	}{{"", true}, {"0000", true}, {form, false}} {
		out := post("/logout", url.Values{"form": {c.form}})
		out.Header["Cookie"] = r.Header["Cookie"]
		w := answerTo(s, out)
		if s.Knows(r) != c.known {
			t.Errorf("form %q: HTTP %d, known: %t", c.form, w.Code, s.Knows(r))
		}
	}
}

// between is what stands between two texts.
func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}
