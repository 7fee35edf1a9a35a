package outlier

import (
	"net/url"
	"slices"
	"strconv"
	"time"
)

// The values that parameters of several searches share.
var (
	orders    = []string{"asc", "desc"}
	matching  = []string{"semantic", "lexical"}
	qualities = []string{"negative", "neutral", "positive"}
)

// Range bounds one quantity on either side, both ends included; nil is no bound.
// On the wire the ends of viewCount are viewCountFrom and viewCountTo.
type Range[T any] struct{ From, To *T }

// Filters are the parameters that both search endpoints share (interface, Common
// filters), but for from and size, which belong to one page, and by, which says
// how to match. A zero field is not sent.
type Filters struct {
	Type                              string // video or short
	AverageViewsRatio                 Range[float64]
	ZScore                            Range[float64]
	ViewCount                         Range[int64]
	Language                          []string         // ISO 639-1
	Duration                          Range[int64]     // seconds: our reading, the unit is not shown
	PublishedAt                       Range[time.Time] // sent in UTC, in whole seconds
	SubscribersCount                  Range[int64]
	ChannelAvgViews                   Range[float64]
	ChannelVideoCount                 Range[int64] // To at most 120
	ChannelID                         string
	ChannelAvgViewsToSubscribersRatio Range[float64]
	TitlePattern                      string // with at least one * and two Latin letters
	ReferenceID                       string
	RPMEstimation                     Range[float64]
	RevenueEstimation                 Range[float64]
	ChannelMonetizationAdsense        *bool
	ChannelMonetizationSponsored      *bool
	ClassificationQuality             string // negative, neutral or positive
	ClassificationIsFaceless          *bool
	ExcludeKeyword                    []string
}

// Search holds the parameters of GET /search/outliers. The zero Search asks for
// everything; its pages differ by the from of [Search.Request].
type Search struct {
	Query     []string
	Seed      string // any text; randomises the order
	SortBy    string // views, zScore, averageViewsRatio, publishedAt, revenue or rpm
	SortOrder string // asc or desc
	By        string // semantic (the service's default) or lexical
	Filters
}

// MaxSize is the largest page (interface, Limits). The price is per request, so
// there is no reason to ask for less.
const MaxSize = 40

// maxInteger is the interface's M.
const maxInteger = 9007199254740991

// A Field is one parameter of a request: where its value is, and its rule.
type Field struct {
	Name  string // as the interface spells it, without From and To for a range: "viewCount"
	Value any    // *string, *[]string, **bool, *Range[int64], *Range[float64] or *Range[time.Time], into the struct

	OneOf    []string            // the only texts allowed, if any
	required bool                // a list that has at least one element
	text     func(string) string // what is wrong with a text; "" if nothing
	positive bool                // a range of what cannot be negative: From >= 0, To > 0
	maxTo    float64             // how large To may be; 0 is unbounded
	shown    string              // of a [HitFilter]: the fact or word of a hit that the parameter is about
}

// Fields lists every parameter but from and size, one line each: the only table
// of parameters that there is. The values point into s, so it serves reading and
// writing alike.
func (s *Search) Fields() []Field {
	return append([]Field{
		{Name: "query", Value: &s.Query},
		{Name: "seed", Value: &s.Seed},
		{Name: "sortBy", Value: &s.SortBy, OneOf: []string{"views", "zScore", "averageViewsRatio", "publishedAt", "revenue", "rpm"}},
		{Name: "sortOrder", Value: &s.SortOrder, OneOf: orders},
		{Name: "by", Value: &s.By, OneOf: matching},
	}, s.Filters.fields()...)
}

func (f *Filters) fields() []Field {
	return []Field{
		{Name: "type", Value: &f.Type, OneOf: []string{"video", "short"}},
		{Name: "averageViewsRatio", Value: &f.AverageViewsRatio},
		{Name: "zScore", Value: &f.ZScore},
		{Name: "viewCount", Value: &f.ViewCount, positive: true, maxTo: maxInteger},
		{Name: "language", Value: &f.Language, text: checkLanguage},
		{Name: "duration", Value: &f.Duration, positive: true, maxTo: maxInteger},
		{Name: "publishedAt", Value: &f.PublishedAt},
		{Name: "subscribersCount", Value: &f.SubscribersCount, positive: true, maxTo: maxInteger},
		{Name: "channelAvgViews", Value: &f.ChannelAvgViews, positive: true},
		{Name: "channelVideoCount", Value: &f.ChannelVideoCount, positive: true, maxTo: 120},
		{Name: "channelId", Value: &f.ChannelID, text: checkChannelID},
		{Name: "channelAvgViewsToSubscribersRatio", Value: &f.ChannelAvgViewsToSubscribersRatio, positive: true},
		{Name: "titlePattern", Value: &f.TitlePattern, text: checkTitlePattern},
		{Name: "referenceId", Value: &f.ReferenceID},
		{Name: "rpmEstimation", Value: &f.RPMEstimation, positive: true},
		{Name: "revenueEstimation", Value: &f.RevenueEstimation, positive: true},
		{Name: "channelMonetizationAdsense", Value: &f.ChannelMonetizationAdsense},
		{Name: "channelMonetizationSponsored", Value: &f.ChannelMonetizationSponsored},
		{Name: "classificationQuality", Value: &f.ClassificationQuality, OneOf: qualities},
		{Name: "classificationIsFaceless", Value: &f.ClassificationIsFaceless},
		{Name: "excludeKeyword", Value: &f.ExcludeKeyword},
	}
}

// Check applies the rules of the interface to every parameter.
func (s *Search) Check() []FieldError { return checkFields(s.Fields()) }

// Request makes the request for one page. From counts pages or items, whichever
// the service means by it: the interface says "page to fetch", and the caller
// knows what was learned. A parameter that breaks a rule gives an [Error] of kind
// [Invalid] that lists every such parameter.
func (s *Search) Request(from, size int) (*Request, error) {
	return requestPage(OpSearch, s.Fields(), s.Check(), from, size)
}

// Params are the canonical parameters of fields, without from and size: what has
// no value is not among them.
func Params(fields []Field) url.Values {
	params := url.Values{}
	for _, f := range fields {
		f.put(params)
	}
	return params
}

// put adds the parameter to params if it has a value.
func (f Field) put(params url.Values) {
	switch v := f.Value.(type) {
	case *string:
		if *v != "" {
			params.Set(f.Name, *v)
		}
	case *[]string:
		if len(*v) > 0 {
			params[f.Name] = slices.Clone(*v)
		}
	case **bool:
		if *v != nil {
			params.Set(f.Name, strconv.FormatBool(**v))
		}
	case *Range[int64]:
		putRange(params, f.Name, *v, func(n int64) string { return strconv.FormatInt(n, 10) })
	case *Range[float64]:
		putRange(params, f.Name, *v, func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) })
	case *Range[time.Time]:
		putRange(params, f.Name, *v, instant)
	default:
		panic("outlier: no encoding for parameter " + f.Name)
	}
}

// read is the reverse of put: it takes the parameter from params, as far as its value has
// the form in which it is sent.
func (f Field) read(params url.Values) {
	switch v := f.Value.(type) {
	case *string:
		*v = params.Get(f.Name)
	case *[]string:
		*v = params[f.Name]
	case **bool:
		*v = readOne(params, f.Name, strconv.ParseBool)
	case *Range[int64]:
		readRange(params, f.Name, v, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case *Range[float64]:
		readRange(params, f.Name, v, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	case *Range[time.Time]:
		readRange(params, f.Name, v, func(s string) (time.Time, error) { return time.Parse(time.RFC3339, s) })
	}
}

func readRange[T any](params url.Values, name string, r *Range[T], parse func(string) (T, error)) {
	r.From = readOne(params, name+"From", parse)
	r.To = readOne(params, name+"To", parse)
}

// readOne is a value that parse accepts, or nil.
func readOne[T any](params url.Values, name string, parse func(string) (T, error)) *T {
	v, err := parse(params.Get(name))
	if err != nil {
		return nil
	}
	return &v
}

func putRange[T any](params url.Values, name string, r Range[T], text func(T) string) {
	if r.From != nil {
		params.Set(name+"From", text(*r.From))
	}
	if r.To != nil {
		params.Set(name+"To", text(*r.To))
	}
}

// instant writes a time in the one form that every reading of the interface
// accepts: seconds and Z, although it calls the seconds optional.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
