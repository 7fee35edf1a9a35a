package page

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"outlierd/sinks/duckdb/query"
)

// Filter selects a page of outliers, or of those that people have marked.
type Filter struct {
	query.Outliers
	Show  string // [ShowAll] or another one below
	Page  int    // of [PerPage] outliers, from 1
	Table bool   // show a table instead of cards

	form url.Values // the parameters of its address but the page, without those that are the default
}

// What is shown.
const (
	ShowNew     = "new" // found this week for the first time
	ShowAll     = "all"
	ShowStarred = "starred"
	ShowHidden  = "hidden"
)

// PerPage is the number of outliers per page.
const PerPage = 48

// orders are the sort orders with their labels. The last ones are only heads of the table.
var orders = []choice{
	{"ratio", "strongest first"}, {"found", "newest find first"}, {"score", "score"}, {"views", "most views"},
	{"gain", "gaining most a day"}, {"published", "published last"}, {"median", ""}, {"subscribers", ""},
}

// choice is an option of a form.
type choice struct{ Value, Text string }

// Found is a part of the outliers in the published tables.
type Found struct {
	Cards  []Card
	Total  int64               // matching outliers
	Values map[string][]Option // of each facet, by its name
	Views  []Link
	Newest time.Time // when the newest was found
	Hidden int64     // videos that people have hidden
	SQL    string    // finds the same outliers

	Filter  Filter
	Nothing bool   // nothing is new, so that everything is shown
	Without []Link // if nothing matches: the same without one of the filters
	Saves   bool   // the view can be saved
}

// Option is a value of a facet, with the number of outliers that have it and match all other filters.
type Option struct {
	Value string
	Count int64
}

// serveFound shows the outliers that match the address.
func (s *Site) serveFound(w http.ResponseWriter, r *http.Request) error {
	f, err := filterOf(r.URL)
	if err != nil {
		return badRequest("%w", err)
	}
	v, err := findMatches(s, f)
	nothing := err == nil && v.Total == 0 && f.Show == ShowNew && f.Page == 1 && len(f.activeFilters()) == 1
	if nothing {
		f.Show = ShowAll
		if v, err = findMatches(s, f); err == nil && v.Total == 0 {
			return s.render.show(w, r, s.render.viewWithoutData(r, "No run has found an outlier yet."))
		}
	}
	if err == nil && v.Total == 0 {
		v.Without, err = findWithout(s, f)
	}
	if err != nil {
		return err
	}
	v.Nothing, v.Saves = nothing, s.from.SaveView != nil && s.Knows(r)
	return s.render.show(w, r, view{"found.html", v.title(), "Found", v})
}

// findMatches returns what matches a filter.
func findMatches(s *Site, f Filter) (*Found, error) {
	key := fmt.Sprint("found ", f.address(f.Page), " ", f.Offset, " ", f.Limit)
	found, err := readTables(s, key, func(ctx context.Context) (*Found, error) { return s.from.Found(ctx, f) })
	if err == nil {
		found.Filter = f
	}
	return found, err
}

// findWithout returns the filters without which something matches.
func findWithout(s *Site, f Filter) (all []Link, err error) {
	for _, one := range f.activeFilters() {
		rest, err := FilterOf(one.Address)
		if err != nil {
			return nil, err
		}
		rest.Limit = 0
		found, err := findMatches(s, rest)
		if err != nil {
			return nil, err
		}
		if one.Count = &found.Total; found.Total > 0 {
			all = append(all, one)
		}
	}
	return all, nil
}

// maxField is the maximum length of a form field, in characters.
const maxField = 500

// checkTexts returns an error if a value of the form is too long, or no text.
func checkTexts(form url.Values) error {
	for name, values := range form {
		for _, value := range values {
			if n := utf8.RuneCountInString(value); n > maxField {
				return fmt.Errorf("%.40q: %d characters are too many; at most %d are allowed", name, n, maxField)
			}
			if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
				return fmt.Errorf("%.40q: must be text, got %.40q", name, value)
			}
		}
	}
	return nil
}

// parameters are the names in addresses of lists.
func parameters() []string {
	return append([]string{"q", "show", "order", "page", "as"}, query.FilterNames()...)
}

// filterOf parses an address of the page Found. On / it selects what is new, on /found everything.
func filterOf(address *url.URL) (f Filter, err error) {
	given := address.Query()
	if err := checkTexts(given); err != nil {
		return f, err
	}
	f.form, f.Chosen, f.Limit = url.Values{}, map[string][]string{}, PerPage
	for _, name := range parameters() {
		for _, value := range given[name] {
			if value = strings.TrimSpace(value); value != "" && !slices.Contains(f.form[name], value) && len(f.form[name]) < 50 {
				f.form[name] = append(f.form[name], value)
			}
		}
	}
	f.form.Del("page")
	f.Words, f.Table = f.form.Get("q"), f.form.Get("as") == "table"
	switch f.Show = f.form.Get("show"); f.Show {
	case "":
		if f.Show = ShowAll; address.Path == "/" && !f.form.Has("seed") {
			f.Show = ShowNew
		}
	case ShowNew, ShowAll, ShowStarred, ShowHidden:
	default:
		return f, fmt.Errorf("show: unknown value %.40q", f.Show)
	}
	f.Order = cmp.Or(f.form.Get("order"), orders[0].Value)
	if !slices.ContainsFunc(orders, func(c choice) bool { return c.Value == f.Order }) {
		return f, fmt.Errorf("order: unknown value %.40q", f.Order)
	}
	for _, name := range query.FilterNames() {
		if f.form.Has(name) {
			f.Chosen[name] = f.form[name]
		}
	}
	for name, unit := range map[string]string{"ratio": "number", "days": "number of days"} {
		for _, value := range f.Chosen[name] {
			if n, err := strconv.ParseFloat(value, 64); value != "below" && (err != nil || !(n >= 0) || n > 1_000_000) {
				return f, fmt.Errorf("%s: must be a %s from 0 to 1000000, got %.40q", name, unit, value)
			}
		}
	}
	f.Page, err = pageOf(given)
	f.Offset, f.form = (f.Page-1)*PerPage, f.edit("") // without defaults
	return f, err
}

// FilterOf parses the address of a list of outliers.
func FilterOf(address string) (Filter, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Filter{}, err
	}
	return filterOf(u)
}

// CheckNames returns an error for parameters of an address that no list of outliers has, which a page ignores.
func CheckNames(form url.Values) error {
	known := parameters()
	for name := range form {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%.40q: unknown parameter; there are %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// edit returns the parameters with other values of one, without those that are the default.
func (f Filter) edit(name string, values ...string) url.Values {
	form := maps.Clone(f.form)
	form[name] = values
	maps.DeleteFunc(form, func(name string, values []string) bool {
		return len(values) == 0 || name == "order" && values[0] == orders[0].Value || name == "as" && values[0] != "table" ||
			name == "show" && (values[0] == ShowNew || values[0] == ShowAll)
	})
	return form
}

// address returns the address of a page with the same filter.
func (f Filter) address(page int) string { return pageAddress(f.Path(), maps.Clone(f.form), page) }

// with returns the address of the first page with other values of a parameter.
func (f Filter) with(name string, values ...string) string {
	return pageAddress(f.Path(), f.edit(name, values...), 1)
}

// Path is where lists of this kind are.
func (f Filter) Path() string {
	if f.Show == ShowNew {
		return "/"
	}
	return "/found"
}

// activeFilters returns the filters that are in force, each with the address of the list without it.
func (f Filter) activeFilters() (all []Link) {
	if f.Show == ShowNew {
		all = append(all, Link{Text: "new this week", Address: pageAddress("/found", maps.Clone(f.form), 1)})
	}
	for _, name := range append([]string{"show", "q"}, query.FilterNames()...) {
		if values := f.form[name]; len(values) > 0 {
			all = append(all, Link{Text: labelFilter(name, values), Address: f.with(name)})
		}
	}
	return all
}

// Others are filters that have no menu, each with the address without it.
func (f Filter) Others() (all []Link) {
	for _, t := range query.Texts {
		if values := f.form[t.Name]; len(values) > 0 {
			all = append(all, Link{Text: labelFilter(t.Name, values), Address: f.with(t.Name)})
		}
	}
	return all
}

// labelFilter names a filter and its values.
func labelFilter(name string, values []string) string {
	switch name {
	case "show":
		return values[0]
	case "q":
		return "“" + values[0] + "”"
	}
	labels := make([]string, len(values))
	for i, v := range values {
		labels[i] = labelValue(name, v)
	}
	return name + ": " + strings.Join(labels, ", ")
}

// labelValue names a value of a facet.
func labelValue(name, value string) string {
	switch {
	case name == "language" && languages[strings.ToLower(value)] != "":
		return languages[strings.ToLower(value)]
	case name == "ratio" && value != "below":
		return value + "× and more"
	case name == "days":
		return "last " + value + " days"
	}
	return value
}

// title is the headline.
func (v *Found) title() string {
	switch f := v.Filter; {
	case v.Nothing && !v.Newest.IsZero():
		return "Nothing new since " + v.Newest.Format("2 January")
	case v.Total == 0:
		return "No video matches " + map[bool]string{true: "this filter", false: "all filters"}[len(f.activeFilters()) < 2]
	case f.Show == ShowNew:
		return formatCount(v.Total, "new outlier") + " this week"
	case f.Show == ShowStarred:
		return formatCount(v.Total, "starred video")
	case f.Show == ShowHidden:
		return formatCount(v.Total, "hidden video")
	}
	return formatCount(v.Total, "outlier")
}

// Leader is the strongest outlier, if the list begins with it.
func (v *Found) Leader() *Card {
	if v.Filter.Order != orders[0].Value || v.Filter.Page > 1 || len(v.Cards) == 0 || v.Cards[0].Ratio == nil {
		return nil
	}
	return &v.Cards[0]
}

// Tiles returns the cards, whose pages lead through the list.
func (v *Found) Tiles(f *frame) []tile { return f.tilesOf(v.Cards, v.Here(), v.Filter.Offset+1) }

// Menu is a facet as a menu of links.
type menu struct {
	Title string
	On    bool
	Items []Link
}

// Menus returns the facets as menus.
func (v *Found) Menus() (all []menu) {
	for i := range query.Facets {
		facet := &query.Facets[i]
		chosen := v.Filter.Chosen[facet.Name]
		m := menu{Title: facet.Title, On: len(chosen) > 0}
		if len(chosen) > 0 {
			if m.Title = labelValue(facet.Name, chosen[0]); len(chosen) > 1 {
				m.Title = fmt.Sprintf("%s +%d", m.Title, len(chosen)-1)
			}
		}
		options := slices.Clone(v.Values[facet.Name]) // which all pages share
		for _, value := range chosen {                // what is chosen can be removed, even if no outlier has it
			if !slices.ContainsFunc(options, func(o Option) bool { return o.Value == value }) {
				options = append(options, Option{Value: value})
			}
		}
		for i, o := range options {
			link := Link{Text: cmp.Or(facet.Label(o.Value), labelValue(facet.Name, o.Value)), Count: &options[i].Count,
				On: slices.Contains(chosen, o.Value)}
			values := []string{o.Value}
			if link.On {
				values = slices.DeleteFunc(slices.Clone(chosen), func(c string) bool { return c == o.Value })
			} else if facet.Several || facet.Every {
				values = append(slices.Clone(chosen), o.Value)
			}
			link.Address = v.Filter.with(facet.Name, values...)
			if facet.Name == "ratio" && i < len(limits)+1 {
				link.Dot = fmt.Sprint("dot b", len(limits)-i)
			}
			m.Items = append(m.Items, link)
		}
		if facet.Name == "more" && v.Hidden > 0 {
			m.Items = append(m.Items, Link{Text: "hidden by you", Address: "/found?show=hidden", Count: &v.Hidden,
				On: v.Filter.Show == ShowHidden})
		}
		all = append(all, m)
	}
	return all
}

// Sorting is the menu of orders.
func (v *Found) Sorting() menu {
	m := menu{Title: "Sorted"}
	for _, o := range orders {
		if o.Text == "" {
			continue
		}
		on := v.Filter.Order == o.Value
		m.Items = append(m.Items, Link{Text: o.Text, Address: v.Filter.with("order", o.Value), On: on})
		if on {
			m.Title = strings.ToUpper(o.Text[:1]) + o.Text[1:]
		}
	}
	return m
}

// Tabs are the views: those of every page first, then the saved ones.
func (v *Found) Tabs() (all []Link) {
	form := v.Filter.edit("order")
	form.Del("as")
	here := pageAddress(v.Filter.Path(), form, 1)
	for _, view := range v.Views {
		view.On = view.Address == here
		all = append(all, view)
	}
	return all
}

// Heads are the columns of numbers, each of which can sort the table.
func (v *Found) Heads() (all []Link) {
	for _, c := range []choice{{"ratio", "Times average"}, {"median", "Times median"}, {"score", "Score"}, {"views", "Views"},
		{"gain", "Views a day"}, {"subscribers", "Subscribers"}, {"published", "Published"}, {"found", "Found"}} {
		all = append(all, Link{Text: c.Text, Address: v.Filter.with("order", c.Value), On: v.Filter.Order == c.Value})
	}
	return all
}

// Other is the address of the same page as a table, or as cards.
func (v *Found) Other() string {
	as := "table"
	if v.Filter.Table {
		as = "cards"
	}
	return pageAddress(v.Filter.Path(), v.Filter.edit("as", as), v.Filter.Page)
}

// Here is the address of the list, which can be saved.
func (v *Found) Here() string { return v.Filter.with("as") }

// Files are the addresses of the whole list as a file, and as SQL.
func (v *Found) Files() []Link {
	if v.SQL == "" || len(v.SQL) > maxSQL {
		return nil
	}
	sql := "?" + url.Values{"sql": {v.SQL}}.Encode()
	return []Link{{Text: "CSV", Address: "/ask/result/csv" + sql}, {Text: "Excel", Address: "/ask/result/xlsx" + sql},
		{Text: "Parquet", Address: "/ask/result/parquet" + sql}, {Text: "SQL", Address: "/ask" + sql}}
}

// Pages are the neighbouring pages.
func (v *Found) Pages() pager {
	return pagesBeside(v.Filter.Page, int64(v.Filter.Offset+PerPage) < v.Total, v.Filter.address)
}

// First and Last are the numbers of the first and last outlier shown.
func (v *Found) First() int64 { return int64(v.Filter.Offset) + 1 }
func (v *Found) Last() int64  { return int64(v.Filter.Offset + len(v.Cards)) }

// Fields are the parameters of the filter but its words, for the form that searches.
func (v *Found) Fields() (all []choice) {
	form := v.Filter.edit("q")
	for _, name := range slices.Sorted(maps.Keys(form)) {
		for _, value := range form[name] {
			all = append(all, choice{name, value})
		}
	}
	return all
}

// pageOf returns the page number in a form; default 1.
func pageOf(form url.Values) (int, error) {
	number := strings.TrimSpace(form.Get("page"))
	if number == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, fmt.Errorf("page: must be a number from 1 to 1000000, got %.40q", number)
	}
	return n, nil
}

// pager has the addresses of the pages before and after one, or "".
type pager struct{ Previous, Next string }

// pagesBeside returns the neighbours of a page.
func pagesBeside(page int, more bool, address func(page int) string) (p pager) {
	if page > 1 {
		p.Previous = address(page - 1)
	}
	if more {
		p.Next = address(page + 1)
	}
	return p
}

// pageAddress returns the address of a page; the first page has no number.
func pageAddress(path string, form url.Values, page int) string {
	if page > 1 {
		form.Set("page", strconv.Itoa(page))
	}
	if len(form) == 0 {
		return path
	}
	return path + "?" + form.Encode()
}
