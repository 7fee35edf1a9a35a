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

// actionSite returns a site with a token, which performs actions with do.
func actionSite(t *testing.T, do func(Action) (string, error)) *Site {
	return New(t.Context(), Sources{
		Now: func(context.Context) (*Now, error) { return &Now{}, nil },
		Offer: func(_ context.Context, a Action) (*Offer, error) {
			return &Offer{Title: "Run coffee", Says: []string{"coffee: at most 5 credits"}, Button: "Run it", Seen: "h1",
				Do: func(context.Context) (string, error) { return do(a) }}, nil
		},
	}, token, slog.New(slog.DiscardHandler))
}

// cookieOf returns the session cookie of an answer.
func cookieOf(t *testing.T, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	for _, c := range w.Result().Cookies() {
		if strings.HasPrefix(c.Name, "outlierd") && c.MaxAge > 0 {
			return c
		}
	}
	t.Fatalf("HTTP %d without a session: %s", w.Code, w.Body)
	return nil
}

// loggedIn adds a new session to a request.
func loggedIn(t *testing.T, s *Site, r *http.Request) *http.Request {
	t.Helper()
	r.AddCookie(cookieOf(t, answer(s, s.Ticket())))
	return r
}

// post returns a request with a form, as a browser sends it.
func post(path string, form url.Values) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func TestTicketIsValidOnceAndExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := actionSite(t, nil)
		ticket := s.Ticket()
		w := answer(s, ticket)
		c := cookieOf(t, w)
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
			t.Errorf("the cookie is %+v, want HttpOnly, SameSite=Strict and Path=/", c)
		}
		if got := w.Header().Get("Refresh"); got != "0;url=/" {
			t.Errorf("the ticket leads to %q, want 0;url=/", got)
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(c)
		if !s.Knows(r) {
			t.Error("the session is not known")
		}
		if w := answer(s, ticket); w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
			t.Errorf("the ticket used again: HTTP %d, want %d without a session", w.Code, http.StatusForbidden)
		}
		late := s.Ticket()
		time.Sleep(ticketLife)
		if w := answer(s, late); w.Code != http.StatusForbidden {
			t.Errorf("a ticket after %s: HTTP %d, want %d", ticketLife, w.Code, http.StatusForbidden)
		}
		time.Sleep(sessionLife)
		if s.Knows(r) {
			t.Errorf("the session is still known after %s", sessionLife)
		}
	})
}

func TestOnlyTheTokenLogsIn(t *testing.T) {
	s := actionSite(t, nil)
	for _, wrong := range []string{"", "x", token + "x", token[1:]} {
		w := answerTo(s, post("/login", url.Values{"token": {wrong}, "to": {"/runs"}}))
		if w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 || strings.Contains(w.Body.String(), "CANARY") {
			t.Errorf("token %q: HTTP %d %s, want %d", wrong, w.Code, w.Body, http.StatusForbidden)
		}
	}
	w := answerTo(s, post("/login", url.Values{"token": {token}, "to": {"/runs?job=a"}}))
	if cookieOf(t, w); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/runs?job=a" {
		t.Errorf("HTTP %d to %s, want %d to /runs?job=a", w.Code, w.Header().Get("Location"), http.StatusSeeOther)
	}
	none := siteOf(t, Sources{})
	if w := answerTo(none, post("/login", url.Values{"token": {""}})); w.Code != http.StatusForbidden {
		t.Errorf("a site without a token: HTTP %d, want %d", w.Code, http.StatusForbidden)
	}
}

func TestLoginRedirectsOnlyWithinTheSite(t *testing.T) {
	for _, to := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/\t/evil.example", "javascript:alert(1)", ""} {
		w := answerTo(actionSite(t, nil), post("/login", url.Values{"token": {token}, "to": {to}}))
		if got := w.Header().Get("Location"); got != "/" {
			t.Errorf("%q leads to %q, want /", to, got)
		}
	}
}

// TestGuessesAreLimited, and the right token is accepted again after a while.
func TestGuessesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := actionSite(t, nil)
		codes := map[int]int{}
		for range 100 {
			codes[answerTo(s, post("/login", url.Values{"token": {"guess"}})).Code]++
			codes[answer(s, "/login?ticket=guess").Code]++
		}
		if codes[http.StatusForbidden] != guesses || codes[http.StatusTooManyRequests] != 200-guesses {
			t.Errorf("200 guesses: answers by status: %v, want %d times %d and otherwise %d",
				codes, guesses, http.StatusForbidden, http.StatusTooManyRequests)
		}
		w := answerTo(s, post("/login", url.Values{"token": {token}}))
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("the right token after the guesses: HTTP %d, want %d with Retry-After",
				w.Code, http.StatusTooManyRequests)
		}
		cookieOf(t, answer(s, s.Ticket())) // a ticket cannot be guessed, so it is not limited
		time.Sleep(guessEvery)
		cookieOf(t, answerTo(s, post("/login", url.Values{"token": {token}})))
	})
}

func TestExpiredSessionsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := actionSite(t, nil)
		for range 3 {
			cookieOf(t, answer(s, s.Ticket()))
			time.Sleep(sessionLife + time.Second)
		}
		if sessions, tickets := len(s.logins.sessions), len(s.logins.tickets); sessions != 1 || tickets != 0 {
			t.Errorf("%d sessions and %d tickets are kept, want the last session", sessions, tickets)
		}
	})
}

func TestLogoutEndsTheSession(t *testing.T) {
	s := actionSite(t, nil)
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
			t.Errorf("form %q: HTTP %d, session known: %t, want %t", c.form, w.Code, s.Knows(r), c.known)
		}
	}
}

// between returns the text between before and after.
func between(text, before, after string) string {
	_, text, _ = strings.Cut(text, before)
	text, _, _ = strings.Cut(text, after)
	return text
}
