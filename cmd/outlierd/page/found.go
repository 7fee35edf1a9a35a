package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Filter selects outliers. The zero value selects all, newest first.
type Filter struct {
	Query, Job, Channel, Kind, Language string // "" for any; a query is part of one, a channel an id, a handle or words of its title

	Ratio float64 // minimum of views, as a multiple of the channel's average
	Days  int     // maximum number of days since publication; 0 for any
	Order string  // one of [orders]
	Page  int     // of [PerPage] outliers, from 1
	Map   bool    // show the first [MostDots] on the map instead of a page
}

// PerPage is the number of outliers per page.
const PerPage = 50

// orders are the sort orders, with their labels.
var orders = []choice{
	{"found", "newest"}, {"ratio", "views against the channel's average"}, {"score", "score"},
	{"views", "views"}, {"published", "published last"},
}

// choice is an option of a form.
type choice struct{ Value, Text string }

// Outlier is a row of [Found]. Numbers that the service did not give are nil.
type Outlier struct {
	ID        string
	Title     string
	Link      string // address of the video
	Channel   string
	ChannelID string
	Kind      string
	Language  string
	Views     *int64
	Curve     []int64  // its views at its last sightings, oldest first
	Ratio     *float64 // views as a multiple of the channel's average
	Score     *float64 // standard deviations above the channel's average
	Age       float64  // days since it was published; 0 if unknown
	Published string   // formatted times
	Found     string
}

// Found is a page of outliers from the published tables.
type Found struct {
	Outliers []Outlier
	Total    int64 // matching outliers, on all pages
}

// found shows the outliers that match the form.
func (s *Site) found(w http.ResponseWriter, r *http.Request) {
	f, err := filterOf(r.URL.Query())
	if err != nil {
		s.say(w, http.StatusBadRequest, err.Error())
		return
	}
	view := foundView{Filter: f, Orders: orders}
	view.Found, err = read(s, r, func(ctx context.Context) (*Found, error) { return s.from.Found(ctx, f) })
	if err != nil {
		s.refuse(w, r, "found", err)
		return
	}
	s.show(w, "found.html", view)
}

// longest is the maximum length of a form field, in characters.
const longest = 500

// tooLong returns an error if a field of the form is too long.
func tooLong(form url.Values) error {
	for name := range form {
		if n := utf8.RuneCountInString(form.Get(name)); n > longest {
			return fmt.Errorf("%.40q: %d characters are too many; at most %d are allowed", name, n, longest)
		}
	}
	return nil
}

// filterOf parses the form.
func filterOf(form url.Values) (f Filter, err error) {
	if err := tooLong(form); err != nil {
		return f, err
	}
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	f = Filter{Query: text("query"), Job: text("job"), Channel: text("channel"), Kind: text("kind"),
		Language: text("language"), Order: text("order"), Page: 1, Map: form.Get("as") == "map"}
	if f.Order == "" {
		f.Order = orders[0].Value
	}
	if !known(orders, f.Order) {
		return f, fmt.Errorf("order: unknown value %q", f.Order)
	}
	if ratio := text("ratio"); ratio != "" {
		if f.Ratio, err = strconv.ParseFloat(ratio, 64); err != nil || !(f.Ratio >= 0) {
			return f, fmt.Errorf("ratio: must be a number of at least 0, got %q", ratio)
		}
	}
	for name, into := range map[string]*int{"days": &f.Days, "page": &f.Page} {
		if number := text(name); number != "" {
			if *into, err = strconv.Atoi(number); err != nil || *into < 1 || *into > 1_000_000 {
				return f, fmt.Errorf("%s: must be a number from 1 to 1000000, got %q", name, number)
			}
		}
	}
	return f, nil
}

func known(choices []choice, value string) bool {
	for _, c := range choices {
		if c.Value == value {
			return true
		}
	}
	return false
}

// address returns the address of another page with the same filter.
func (f Filter) address(page int) string {
	form := url.Values{}
	for name, value := range map[string]string{
		"query": f.Query, "job": f.Job, "channel": f.Channel, "kind": f.Kind, "language": f.Language,
	} {
		if value != "" {
			form.Set(name, value)
		}
	}
	if f.Order != orders[0].Value {
		form.Set("order", f.Order)
	}
	if f.Ratio > 0 {
		form.Set("ratio", strconv.FormatFloat(f.Ratio, 'g', -1, 64))
	}
	if f.Days > 0 {
		form.Set("days", strconv.Itoa(f.Days))
	}
	if f.Map {
		form.Set("as", "map")
	}
	return paged("/found", form, page)
}

// foundView is the data of the page Found.
type foundView struct {
	*Found
	Filter Filter
	Orders []choice
}

// Previous and Next are the addresses of the neighbouring pages, or "".
func (v foundView) Previous() string {
	if v.Filter.Page == 1 {
		return ""
	}
	return v.Filter.address(v.Filter.Page - 1)
}

func (v foundView) Next() string {
	if int64(v.Filter.Page)*PerPage >= v.Total {
		return ""
	}
	return v.Filter.address(v.Filter.Page + 1)
}

// Map returns the map of the outliers. Other is the address of the list if the map is shown, otherwise
// of the map.
func (v foundView) Map() *mapView { return mapped(v.Outliers) }
func (v foundView) Other() string {
	f := v.Filter
	f.Map = !f.Map
	return f.address(1)
}

// First and Last are the numbers of the first and last row shown.
func (v foundView) First() int64 { return int64(v.Filter.Page-1)*PerPage + 1 }
func (v foundView) Last() int64  { return v.First() + int64(len(v.Outliers)) - 1 }

// whole formats a whole number with thousands separators; "" for nil.
func whole(n *int64) string {
	if n == nil {
		return ""
	}
	return thousands(*n)
}

func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:] // a narrow no-break space
	}
	return digits
}

// decimal formats a number with one decimal place; "" for nil.
func decimal(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'f', 1, 64)
}
