package page

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Marking is a change of the marks of videos. What is nil or empty stays as it is.
type Marking struct {
	IDs        []string
	Star, Hide *bool
	Tag        []string
	Set        bool // Tag has all tags: others are removed
	Note       *string
}

// View is a saved view: a name for an address of the page Found, with the number of its outliers.
type View struct {
	Name, Address string
	Count         int64
}

// Views changes the saved views. A [RefusedError] explains why one was refused.
type Views struct {
	List func(context.Context) ([]View, error)
	Save func(ctx context.Context, old, name, address string) error // an empty name deletes the old one
}

// serveMark carries out a form that marks videos. A script sends it without leaving the page.
func (s *Site) serveMark(w http.ResponseWriter, r *http.Request) error {
	if err := s.logins.checkForm(r, "Nothing was marked"); err != nil {
		return err
	}
	m := markingOf(r.PostForm)
	if len(m.IDs) == 0 || len(m.IDs) > mostPicked {
		return badRequest("Nothing was marked: name from 1 to 200 videos.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), acting)
	defer cancel()
	if err := s.from.Mark(ctx, m); err != nil {
		return err
	}
	http.Redirect(w, r, ofThisSite(r.PostFormValue("to")), http.StatusSeeOther)
	return nil
}

// markingOf reads a marking from a form: a button of one video, or fields about some.
func markingOf(form url.Values) (m Marking) {
	yes, no := new(true), new(false)
	for name, set := range map[string]func(){
		"star": func() { m.Star = yes }, "unstar": func() { m.Star = no }, "hide": func() { m.Hide = yes }, "show": func() { m.Hide = no },
	} {
		if form.Has(name) {
			m.IDs = []string{form.Get(name)}
			set()
		}
	}
	if len(m.IDs) > 0 {
		return m
	}
	m.IDs = slices.Compact(form["v"])
	switch form.Get("all") {
	case "star":
		m.Star = yes
		return m
	case "hide":
		m.Hide = yes
		return m
	}
	for _, tag := range strings.FieldsFunc(form.Get("tags"), func(r rune) bool { return r == ',' }) {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "#"); tag != "" {
			m.Tag = append(m.Tag, tag)
		}
	}
	m.Set = form.Has("set")
	if note := form.Get("note"); note != "" || m.Set {
		m.Note = &note
	}
	return m
}

// serveViews shows the saved views, which can be renamed and deleted, and offers to save an address.
func (s *Site) serveViews(w http.ResponseWriter, r *http.Request) error {
	session := s.logins.sessionOf(r)
	if session == "" {
		return errNoLogin
	}
	v := viewsView{Address: r.URL.Query().Get("address"), Form: formMark(session)}
	if v.Address != "" && !isList(v.Address) {
		return badRequest("Only a list of outliers can be saved as a view.")
	}
	var err error
	if v.Views, err = s.from.Views.List(r.Context()); err != nil {
		return err
	}
	return s.render.show(w, r, view{"views.html", "Saved views", "Found", v})
}

// viewsView is the data of the page of saved views.
type viewsView struct {
	Views         []View
	Address, Form string
}

// isList reports whether an address is one of the page Found.
func isList(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.IsAbs() || u.Host != "" || u.Path != "/" && u.Path != "/found" {
		return false
	}
	_, err = filterOf(u)
	return err == nil
}

// saveView saves, renames or deletes a view.
func (s *Site) saveView(w http.ResponseWriter, r *http.Request) error {
	if err := s.logins.checkForm(r, "Nothing was saved"); err != nil {
		return err
	}
	form := r.PostForm
	name, address := strings.TrimSpace(form.Get("name")), form.Get("address")
	if form.Has("delete") {
		name = ""
	} else if err := checkTexts(url.Values{"name": {name}}); err != nil || name == "" || !isList(address) {
		return badRequest("Nothing was saved: a view needs a name and the address of a list.")
	}
	if err := s.from.Views.Save(r.Context(), form.Get("old"), name, address); err != nil {
		return err
	}
	if name == "" {
		address = "/views"
	}
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}
