package page

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outlierd/outlier"
	"outlierd/sync/marks"
	"outlierd/sync/serve"
)

// markSite returns a site whose marks and views are changed by these functions, and the form secret and cookie of a
// login.
func markSite(t *testing.T, mark func(marks.Edit) error, save func(old, name, address string) error) (s *Site, cookie []string, form string) {
	s = siteOf(t, Sources{
		Found: func(context.Context, Filter) (*Found, error) {
			return &Found{Total: 1, Cards: cardsOf("v0000000001")}, nil
		},
		Mark: func(_ context.Context, m marks.Edit) error { return mark(m) },
		Views: func() ([]marks.View, error) {
			return []marks.View{{Name: "Hooks & more", Address: "/found?kind=short"}}, nil
		},
		SaveView: save,
	})
	r := loggedIn(t, s, httptest.NewRequest(http.MethodGet, "/found?kind=short", nil))
	page := answerTo(s, r)
	shows(t, page, `<button class="star" name="star" value="v0000000001" form="marks" aria-pressed="false">`,
		`<form id="marks" method="post" action="/marks">`, `name="to" value="/found?kind=short"`, "/views?address=%2ffound%3fkind%3dshort")
	return s, r.Header["Cookie"], between(page.Body.String(), `name="form" value="`, `"`)
}

func TestStarNeedsLoginAndForm(t *testing.T) {
	var marked []marks.Edit
	s, cookie, form := markSite(t, func(m marks.Edit) error { marked = append(marked, m); return nil }, func(old, name, address string) error { return nil })
	if body := answer(s, "/found").Body.String(); strings.Contains(body, `id="marks"`) || strings.Contains(body, `name="star"`) {
		t.Errorf("without a login, stars are buttons: %s", body)
	}
	send := func(form url.Values, cookie []string, header ...string) *httptest.ResponseRecorder {
		r := post("/marks", form)
		r.Header["Cookie"] = cookie
		if len(header) > 0 {
			r.Header.Set(header[0], header[1])
		}
		return answerTo(s, r)
	}
	right := url.Values{"form": {form}, "to": {"/found?kind=short"}, "star": {"v0000000001"}}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"no login":     send(right, nil),
		"no secret":    send(url.Values{"star": {"v0000000001"}}, cookie),
		"another site": send(right, cookie, "Sec-Fetch-Site", "cross-site"),
		"no video":     send(url.Values{"form": {form}}, cookie),
	} {
		if w.Code < 400 || len(marked) > 0 {
			t.Fatalf("%s: HTTP %d, marked %v", name, w.Code, marked)
		}
	}
	w := send(right, cookie)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/found?kind=short" || len(marked) != 1 || !*marked[0].Star {
		t.Errorf("HTTP %d to %s, marked %+v", w.Code, w.Header().Get("Location"), marked)
	}
	right.Set("to", "https://evil.example/")
	if w := send(right, cookie); w.Header().Get("Location") != "/" {
		t.Errorf("a form leads to %s", w.Header().Get("Location"))
	}
}

func TestMarkingFromForm(t *testing.T) {
	yes, no, note, none := true, false, "why", ""
	for form, want := range map[string]marks.Edit{
		"star=a":                          {Videos: []string{"a"}, Star: &yes},
		"unstar=a":                        {Videos: []string{"a"}, Star: &no},
		"hide=a":                          {Videos: []string{"a"}, Hide: &yes},
		"show=a":                          {Videos: []string{"a"}, Hide: &no},
		"follow=a":                        {Videos: []string{"a"}, Tag: []string{"follow"}},
		"all=star&v=a&v=b&tags=x":         {Videos: []string{"a", "b"}, Star: &yes},
		"all=tag&v=a&tags=%23x,+y+z+,,":   {Videos: []string{"a"}, Tag: []string{"x", "y z"}},
		"all=tag&v=a&note=why":            {Videos: []string{"a"}, Note: &note},
		"set=1&v=a&tags=x&note=":          {Videos: []string{"a"}, Tags: &[]string{"x"}, Note: &none},
		"form=secret&to=/&note=nothing+x": {Note: new("nothing x")},
	} {
		values, err := url.ParseQuery(form)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, markingOf(values)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", form, diff)
		}
	}
}

func TestViewsAreSavedRenamedAndDeleted(t *testing.T) {
	var saved []string
	s, cookie, form := markSite(t, nil, func(old, name, address string) error {
		if name == "taken" {
			return serve.Refuse(http.StatusConflict, "A view has this name.")
		}
		saved = append(saved, old+"|"+name+"|"+address)
		return nil
	})
	r := httptest.NewRequest(http.MethodGet, "/views?address=%2Ffound%3Fkind%3Dshort", nil)
	r.Header["Cookie"] = cookie
	shows(t, answerTo(s, r), `name="address" value="/found?kind=short"`, `name="old" value="Hooks &amp; more"`)
	for _, c := range []struct {
		form url.Values
		code int
		to   string
	}{
		{url.Values{"name": {"mine"}, "address": {"/found?kind=short"}}, http.StatusSeeOther, "/found?kind=short"},
		{url.Values{"old": {"mine"}, "name": {"ours"}, "address": {"/found?kind=short"}}, http.StatusSeeOther, "/found?kind=short"},
		{url.Values{"old": {"ours"}, "name": {"ours"}, "address": {"/found"}, "delete": {"1"}}, http.StatusSeeOther, "/views"},
		{url.Values{"name": {"taken"}, "address": {"/"}}, http.StatusConflict, ""},
		{url.Values{"name": {""}, "address": {"/"}}, http.StatusBadRequest, ""},
		{url.Values{"name": {"evil"}, "address": {"https://evil.example/"}}, http.StatusBadRequest, ""},
		{url.Values{"name": {"evil"}, "address": {"//evil.example/found"}}, http.StatusBadRequest, ""},
		{url.Values{"name": {"ask"}, "address": {"/ask?sql=x"}}, http.StatusBadRequest, ""},
	} {
		c.form.Set("form", form)
		r := post("/views", c.form)
		r.Header["Cookie"] = cookie
		if w := answerTo(s, r); w.Code != c.code || w.Header().Get("Location") != c.to {
			t.Errorf("%v: HTTP %d to %q, want %d to %q", c.form, w.Code, w.Header().Get("Location"), c.code, c.to)
		}
	}
	if diff := cmp.Diff([]string{"|mine|/found?kind=short", "mine|ours|/found?kind=short", "ours||/found"}, saved); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPickedVideosAreExported(t *testing.T) {
	s := siteOf(t, Sources{
		Picked:    func(_ context.Context, ids []string) ([]Card, error) { return cardsOf(ids[0]), nil },
		PickedSQL: func(ids []string) (string, error) { return strings.Join(ids, " "), nil },
		Download: func(_ context.Context, sql, _ string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(sql)), nil
		},
	})
	shows(t, answer(s, "/picked?v=a&v=b"), "1 picked video", "1 video of the address cannot be found", "/picked?as=xlsx&amp;v=a")
	for format, attached := range map[string]bool{"csv": true, "xlsx": true, "md": false, "links": false} {
		w := answer(s, "/picked?v=a&as="+format)
		if w.Header().Get("Content-Type") != FileTypes[format] || w.Body.String() != "a" || (w.Header().Get("Content-Disposition") != "") != attached {
			t.Errorf("%s: HTTP %d %v %s", format, w.Code, w.Header(), w.Body)
		}
	}
	for _, path := range []string{"/picked?v=a&as=exe", "/picked?v=" + strings.Repeat("a&v=b&v=", maxPicked)} {
		if w := answer(s, path); w.Code != http.StatusBadRequest {
			t.Errorf("%.40s: HTTP %d, want %d", path, w.Code, http.StatusBadRequest)
		}
	}
}

func TestVerdictFollowsItsRule(t *testing.T) {
	for want, y := range map[string]Yield{
		"not known yet":       {},
		"exhausted":           {Shares: []float64{.9, .02, 0, .01}},
		"little is new":       {Shares: []float64{.02, .09, .01}},
		"others find it, too": {Shares: []float64{.5, .5, .5}, IDs: 10, Shared: 5},
		"worth it":            {Shares: []float64{.02, .01, .2}, IDs: 10, Shared: 4},
	} {
		if got := y.Says(); got != want {
			t.Errorf("%+v: %s, want %s", y, got, want)
		}
	}
	if got := (Yield{Shares: []float64{0, 0}}).Says(); got != "not known yet" {
		t.Errorf("two runs without new hits: %s, want no verdict yet", got)
	}
}

// TestPricesComeFromJobFile, wherever a page names one before it is confirmed.
func TestPricesComeFromJobFile(t *testing.T) {
	s := sample(t)
	s.from.Prices = func() outlier.Prices { return outlier.Prices{"search": 3, "related": 7} }
	for path, want := range map[string]string{
		"/money": `Buy the rest <span class="price">9 credits`, "/niches": `Buy the rest <span class="price">9 credits`,
		"/videos/v01": `Like its title <span class="price">7 credits`, "/found?q=moka": `Search the service once <span class="price">3 credits`,
	} {
		shows(t, answerTo(s, loggedIn(t, s, httptest.NewRequest(http.MethodGet, path, nil))), want, "!>2 credits")
	}
	shows(t, answer(s, "/money"), "Enough remains for 13 pages")
}
