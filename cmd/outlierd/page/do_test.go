package page

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"outlierd/sync/serve"
)

// TestActionNeedsLoginAndForm of its own: each case changes one thing that the browser sends.
func TestActionNeedsLoginAndForm(t *testing.T) {
	var did []Action
	s := actionSite(t, func(a Action) (string, error) {
		did = append(did, a)
		return "/runs/01a2", nil
	})
	w := answer(s, "/do/run?job=coffee")
	if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "at most 5 credits") {
		t.Errorf("an offer without a login: HTTP %d %s, want %d", w.Code, w.Body, http.StatusUnauthorized)
	}
	session := loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/do/run?job=coffee", nil))
	offer := answerTo(s, session)
	mark := between(offer.Body.String(), `name="form" value="`, `"`)
	shows(t, offer, "at most 5 credits", `name="seen" value="h1"`, `name="job" value="coffee"`)
	form := url.Values{"form": {mark}, "job": {"coffee"}, "seen": {"h1"}}
	other := loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/", nil))
	for name, change := range map[string]func(*http.Request){
		"no session":        func(r *http.Request) { r.Header.Del("Cookie") },
		"another session":   func(r *http.Request) { r.Header["Cookie"] = other.Header["Cookie"] },
		"a made-up session": func(r *http.Request) { r.Header.Set("Cookie", cookieName(r)+"=ABC") },
		"no form": func(r *http.Request) {
			*r = *post("/do/run", url.Values{"job": {"coffee"}})
			r.Header["Cookie"] = session.Header["Cookie"]
		},
		"a form in the address": func(r *http.Request) {
			*r = *post("/do/run?"+form.Encode(), nil)
			r.Header["Cookie"] = session.Header["Cookie"]
		},
		"another site":      func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another port":      func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"another origin":    func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") },
		"a sandboxed frame": func(r *http.Request) { r.Header.Set("Origin", "null") },
		"too long a form": func(r *http.Request) {
			*r = *post("/do/run", url.Values{"form": form["form"], "why": {strings.Repeat("x", maxForm)}})
			r.Header["Cookie"] = session.Header["Cookie"]
		},
	} {
		r := post("/do/run", form)
		r.Header["Cookie"] = session.Header["Cookie"]
		change(r)
		want := http.StatusForbidden
		if !s.Knows(r) {
			want = http.StatusUnauthorized // the login page
		}
		if w := answerTo(s, r); w.Code != want {
			t.Errorf("%s: HTTP %d %s, want %d", name, w.Code, w.Body, want)
		}
	}
	if w := answerTo(s, loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/do/run?"+form.Encode(), nil))); w.Code != http.StatusOK {
		t.Errorf("GET: HTTP %d, want %d", w.Code, http.StatusOK)
	}
	if len(did) > 0 {
		t.Fatalf("got actions %+v, want none", did)
	}
	r := post("/do/run", form)
	r.Header["Cookie"] = session.Header["Cookie"]
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w = answerTo(s, r)
	want := Action{Verb: RunJob, Job: "coffee", Seen: "h1"}
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/runs/01a2" || len(did) != 1 || did[0] != want {
		t.Errorf("HTTP %d to %s with actions %+v, want %d to /runs/01a2 with %+v",
			w.Code, w.Header().Get("Location"), did, http.StatusSeeOther, want)
	}
}

// TestFailedActionSaysWhy: the page shows messages for users; other errors are only in the log.
func TestFailedActionSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			does func(Action) (string, error)
			seen string
			code int
			says string
		}{
			"refused": {
				func(Action) (string, error) {
					return "", serve.Refuse(http.StatusConflict, "coffee runs by hand only.")
				},
				"h1", http.StatusConflict, "by hand only",
			},
			"changed since its offer was shown": {nil, "h0", http.StatusConflict, "the job has changed"},
			"broken": {
				func(Action) (string, error) { return "", errors.New("EIO") },
				"h1", http.StatusInternalServerError, "the log of outlierd up has the reason",
			},
			"busy": {
				func(Action) (string, error) { time.Sleep(acting); return "", context.DeadlineExceeded },
				"h1", http.StatusServiceUnavailable, "busy with a call",
			},
		} {
			s := actionSite(t, c.does)
			r := loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/do/pause?job=coffee", nil))
			form := between(answerTo(s, r).Body.String(), `name="form" value="`, `"`)
			p := post("/do/pause", url.Values{"form": {form}, "job": {"coffee"}, "seen": {c.seen}})
			p.Header["Cookie"] = r.Header["Cookie"]
			w := answerTo(s, p)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) || strings.Contains(w.Body.String(), "EIO") {
				t.Errorf("%s: HTTP %d %s, want %d with %q and without the error", name, w.Code, w.Body, c.code, c.says)
			}
		}
	})
}
