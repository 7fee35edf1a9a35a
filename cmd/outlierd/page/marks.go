package page

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"outlierd/sync/marks"
)

// serveMark carries out a form that marks videos. A script sends it without leaving the page.
func (s *Site) serveMark(w http.ResponseWriter, r *http.Request) error {
	if err := s.logins.checkForm(r, "Nothing was marked"); err != nil {
		return err
	}
	edit := markingOf(r.PostForm)
	if len(edit.Videos) == 0 || len(edit.Videos) > maxPicked {
		return badRequest("Nothing was marked: name from 1 to 200 videos.")
	}
	ctx, cancel := context.WithTimeout(r.Context(), acting)
	defer cancel()
	if err := s.from.Mark(ctx, edit); err != nil {
		return err
	}
	http.Redirect(w, r, ofThisSite(r.PostFormValue("to")), http.StatusSeeOther)
	return nil
}

// markingOf reads a marking from a form: a button of one video, or fields about some.
func markingOf(form url.Values) (m marks.Edit) {
	yes, no := new(true), new(false)
	for name, set := range map[string]func(){
		"star": func() { m.Star = yes }, "unstar": func() { m.Star = no }, "hide": func() { m.Hide = yes }, "show": func() { m.Hide = no },
		"follow": func() { m.Tag = []string{"follow"} }, // which a channels job may read
	} {
		if form.Has(name) {
			m.Videos = []string{form.Get(name)}
			set()
		}
	}
	if len(m.Videos) > 0 {
		return m
	}
	m.Videos = slices.Compact(form["v"])
	switch form.Get("all") {
	case "star":
		m.Star = yes
		return m
	case "hide":
		m.Hide = yes
		return m
	}
	var tags []string
	for _, tag := range strings.FieldsFunc(form.Get("tags"), func(r rune) bool { return r == ',' }) {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "#"); tag != "" {
			tags = append(tags, tag)
		}
	}
	note := form.Get("note")
	if form.Has("set") {
		m.Tags, m.Note = &tags, &note
		return m
	}
	if m.Tag = tags; note != "" {
		m.Note = &note
	}
	return m
}

// serveViews shows the saved views, which can be renamed and deleted, and offers to save an address.
func (s *Site) serveViews(w http.ResponseWriter, r *http.Request) error {
	if !s.Knows(r) {
		return errNoLogin
	}
	v := viewsView{Address: r.URL.Query().Get("address")}
	if v.Address != "" && !isList(v.Address) {
		return badRequest("Only a list of outliers can be saved as a view.")
	}
	var err error
	if v.Views, err = s.from.Views(); err != nil {
		return err
	}
	return s.render.show(w, r, view{"views.html", "Saved views", "Found", v})
}

// viewsView is the data of the page of saved views.
type viewsView struct {
	Views   []marks.View
	Address string
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
	if err := s.from.SaveView(form.Get("old"), name, address); err != nil {
		return err
	}
	if name == "" {
		address = "/views"
	}
	http.Redirect(w, r, address, http.StatusSeeOther)
	return nil
}
