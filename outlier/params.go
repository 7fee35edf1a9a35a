package outlier

import (
	"net/url"
	"slices"
	"strconv"
	"time"
)

// A Form is the form of a parameter's value.
type Form int

// The forms of parameters. A range is sent as two parameters, either of which may be missing:
// viewCountFrom and viewCountTo, both inclusive.
const (
	Text     Form = iota // one text
	Texts                // a list of texts
	Flag                 // true or false
	Count                // one whole number
	Integers             // a range of whole numbers
	Numbers              // a range of numbers
	Instants             // a range of times: UTC, whole seconds, Z
)

// A Role is what a parameter does in a request.
type Role int

// The roles of parameters.
const (
	Filter  Role = iota // restricts the results
	Subject             // what is searched for, or what results resemble
	Order               // the order of hits, and how texts are compared
)

// A Param is one parameter of a request and its rule.
type Param struct {
	Name  string // as in the interface, without From and To for a range: "viewCount"
	Form  Form
	Role  Role
	OneOf []string // the only allowed texts, if any

	Doc     string // of a filter: what it means, as a sentence of Markdown
	Example string // of a filter: a value as a job file has it, such as "2.."; "" if OneOf or Form says it all

	ops      []Operation         // the operations that have it
	required bool                // a list that needs at least one element
	text     func(string) string // returns what is wrong with a text; "" for nothing
	positive bool                // a range of values that are never negative: From >= 0, To > 0
	max      int64               // maximum of a count or of the end of a range; 0 for none
	min      int64               // minimum of a count
	always   string              // the service's default, which is always sent
	shown    string              // the name in a [factMap] of what a [HitFilter] compares
}

// MaxSize is the maximum page size (interface, Limits). Pages always have it, because the price is per
// request.
const MaxSize = 40

// maxInteger is M of the interface.
const maxInteger = 9007199254740991

// The groups of operations that share parameters.
var (
	inSearch          = []Operation{OpSearch}
	inRelated         = []Operation{OpRelated}
	inFindChannels    = []Operation{OpFindChannels}
	inRelatedChannels = []Operation{OpFindRelatedChannels}
	inStartScan       = []Operation{OpStartScan}
	inQueried         = []Operation{OpSearch, OpFindChannels}
	inOutliers        = []Operation{OpSearch, OpRelated}
	inChannels        = []Operation{OpFindChannels, OpFindRelatedChannels}
	inPaged           = []Operation{OpSearch, OpRelated, OpFindChannels, OpFindRelatedChannels}
)

// Texts of parameters that several operations share.
var (
	kinds     = []string{"video", "short"}
	contents  = []string{"video", "short", "long-form", "short-form"}
	orders    = []string{"asc", "desc"}
	matching  = []string{"semantic", "lexical"}
	qualities = []string{"negative", "neutral", "positive"}
	hitSorts  = []string{"views", "zScore", "averageViewsRatio", "publishedAt", "revenue", "rpm"}

	channelSorts = []string{"subscribers", "averageViews", "avgViewsToSubscribersRatio",
		"viewVariationCoefficient", "revenueMonthly", "rpm", "foundAt", "recency"}
)

// params has all parameters (interface, Endpoints and Common filters), for each operation in the order of
// messages. The interface shows no parameters of the channel searches: they are those of similar
// services, with the bounds of the common filters for the same quantities.
var params = []Param{
	{Name: "query", Role: Subject, Form: Texts, ops: inQueried},
	{Name: "seed", Role: Order, ops: inQueried}, // any text; randomises the order
	{Name: "sortBy", Role: Order, ops: inSearch, OneOf: hitSorts},
	{Name: "sortBy", Role: Order, ops: inFindChannels, OneOf: channelSorts},
	{Name: "sortOrder", Role: Order, ops: inQueried, OneOf: orders},
	{Name: "title", Role: Subject, Form: Texts, ops: inRelated},
	{Name: "videoId", Role: Subject, Form: Texts, ops: inRelated, text: checkVideoID},
	{Name: "thumbnailVideoId", Role: Subject, ops: inRelated, text: checkVideoID},
	{Name: "relatedChannelId", Role: Subject, Form: Texts, ops: inRelated, text: checkChannelID},
	{Name: "relatedChannelId", Role: Subject, Form: Texts, ops: inRelatedChannels, text: checkChannelID, required: true},
	{Name: "by", Role: Order, ops: inOutliers, OneOf: matching},

	{Name: "type", ops: inOutliers, OneOf: kinds, shown: "kind",
		Doc: "Only videos, or only shorts."},
	{Name: "averageViewsRatio", Form: Numbers, ops: inOutliers, shown: "averageViewsRatio",
		Doc: "Views over the channel's average.", Example: "3.."},
	{Name: "zScore", Form: Numbers, ops: inOutliers, shown: "zScore",
		Doc: "Standard deviations above the channel's average views.", Example: "2.."},
	{Name: "viewCount", Form: Integers, ops: inOutliers, positive: true, max: maxInteger, shown: "views",
		Doc: "Views.", Example: "50000.."},
	{Name: "language", Form: Texts, ops: inOutliers, text: checkLanguage, shown: "language",
		Doc: "Languages as two-letter codes (ISO 639-1).", Example: "[en, de]"},
	{Name: "duration", Form: Integers, ops: inOutliers, positive: true, max: maxInteger, shown: "duration",
		Doc: "Length in seconds.", Example: "60..3600"},
	{Name: "publishedAt", Form: Instants, ops: inOutliers, shown: "publishedAt",
		Doc: "When it was published.", Example: "last 30d"},
	{Name: "subscribersCount", Form: Integers, ops: inOutliers, positive: true, max: maxInteger, shown: "subscribers",
		Doc: "Subscribers of the channel.", Example: "..500000"},
	{Name: "channelAvgViews", Form: Numbers, ops: inOutliers, positive: true,
		Doc: "Average views of the channel.", Example: "1000.."},
	{Name: "channelVideoCount", Form: Integers, ops: inOutliers, positive: true, max: 120,
		Doc: "Videos of the channel, to at most 120.", Example: "10..120"},
	{Name: "channelId", ops: inOutliers, text: checkChannelID, shown: "channelId",
		Doc: "Only this channel.", Example: "UC1234567890abcdefghijkl"},
	{Name: "channelAvgViewsToSubscribersRatio", Form: Numbers, ops: inOutliers, positive: true,
		Doc: "Average views of the channel over its subscribers.", Example: "0.5.."},
	{Name: "titlePattern", ops: inOutliers, text: checkTitlePattern,
		Doc: "A pattern for titles, with at least one `*` and two letters.", Example: "how to * at home"},
	{Name: "referenceId", ops: inOutliers,
		Doc: "Only the results of this scan.", Example: "3f0c9a52-7c1e-4f7e-9d0b-0d8f3a1c2b4e"},
	{Name: "rpmEstimation", Form: Numbers, ops: inOutliers, positive: true, shown: "rpm",
		Doc: "Estimated revenue per thousand views.", Example: "2.."},
	{Name: "revenueEstimation", Form: Numbers, ops: inOutliers, positive: true, shown: "revenue",
		Doc: "Estimated revenue of the video.", Example: "100.."},
	{Name: "channelMonetizationAdsense", Form: Flag, ops: inOutliers, shown: "adsense",
		Doc: "Whether the channel is monetized by AdSense."},
	{Name: "channelMonetizationSponsored", Form: Flag, ops: inOutliers,
		Doc: "Whether sponsored content was detected on the channel."},
	{Name: "classificationQuality", ops: inOutliers, OneOf: qualities, shown: "quality",
		Doc: "The quality, as the service rates it."},
	{Name: "classificationIsFaceless", Form: Flag, ops: inOutliers, shown: "faceless",
		Doc: "Whether no face is shown."},
	{Name: "excludeKeyword", Form: Texts, ops: inOutliers,
		Doc: "Words that hits must not have.", Example: "[giveaway, livestream]"},
	{Name: "likeCount", Form: Integers, positive: true, max: maxInteger, shown: "likes",
		Doc: "Likes of the video.", Example: "100.."},
	{Name: "commentCount", Form: Integers, positive: true, max: maxInteger, shown: "comments",
		Doc: "Comments on the video.", Example: "10.."},

	{Name: "filterBy", ops: inChannels, OneOf: kinds,
		Doc: "Which of a channel's uploads its numbers are about."},
	{Name: "contentKind", ops: inChannels, OneOf: contents,
		Doc: "What the channel publishes."},
	{Name: "publishedAt", Form: Instants, ops: inChannels,
		Doc: "When the channel published.", Example: "last 90d"},
	{Name: "averageViews", Form: Numbers, ops: inChannels, positive: true, shown: "averageViews",
		Doc: "Average views.", Example: "1000.."},
	{Name: "medianViews", Form: Numbers, ops: inChannels, positive: true,
		Doc: "Median of the views.", Example: "1000.."},
	{Name: "language", Form: Texts, ops: inChannels, text: checkLanguage, shown: "language",
		Doc: "Languages as two-letter codes (ISO 639-1).", Example: "[en, de]"},
	{Name: "avgViewsToSubscribersRatio", Form: Numbers, ops: inChannels, positive: true, shown: "avgViewsToSubscribersRatio",
		Doc: "Average views over subscribers.", Example: "0.5.."},
	{Name: "subscribers", Form: Numbers, ops: inChannels, positive: true, shown: "subscribers",
		Doc: "Subscribers.", Example: "..500000"},
	{Name: "videosCount", Form: Numbers, ops: inChannels, positive: true,
		Doc: "Videos.", Example: "10.."},
	{Name: "viewVariationCoefficient", Form: Numbers, ops: inChannels, positive: true, shown: "viewVariationCoefficient",
		Doc: "Standard deviation of the views divided by their average: above 1.5 single hits dominate.", Example: "..1.5"},
	{Name: "revenueMonthlyEstimation", Form: Numbers, ops: inChannels, positive: true, shown: "revenueMonthly",
		Doc: "Estimated revenue in a month.", Example: "1000.."},
	{Name: "rpmEstimation", Form: Numbers, ops: inChannels, positive: true, shown: "rpm",
		Doc: "Estimated revenue per thousand views.", Example: "2.."},
	{Name: "avgDuration", Form: Numbers, ops: inChannels, positive: true,
		Doc: "Average length in seconds.", Example: "60.."},
	{Name: "monetizationAdsense", Form: Flag, ops: inChannels, shown: "adsense",
		Doc: "Whether the channel is monetized by AdSense."},
	{Name: "excludeNiche", Form: Texts, ops: inChannels,
		Doc: "Niches that hits must not belong to.", Example: "[gaming]"},
	{Name: "classificationQuality", ops: inChannels, OneOf: qualities, shown: "quality",
		Doc: "The quality, as the service rates it."},
	{Name: "classificationIsFaceless", Form: Flag, ops: inChannels, shown: "faceless",
		Doc: "Whether no face is shown."},

	{Name: "findBy", ops: inStartScan, OneOf: []string{FindByQuery, FindByChannels}, always: FindByQuery},
	{Name: "query", Role: Subject, Form: Texts, ops: inStartScan, required: true},
	{Name: "mode", ops: inStartScan, OneOf: []string{ModeFast, ModeStandard}, always: ModeFast},

	{Name: "from", Form: Count, ops: inPaged, max: maxInteger},
	{Name: "size", Form: Count, ops: inPaged, min: 1, max: MaxSize},
}

// Params returns the parameters of an operation in the order of the interface, without from and size,
// which belong to one page. It is nil for operations without parameters, and for those whose parameters
// the interface does not show.
func (o Operation) Params() (all []Param) {
	for _, p := range params {
		if p.Form != Count && slices.Contains(p.ops, o) {
			all = append(all, p)
		}
	}
	return all
}

// Subjects returns the names of the parameters that say what an operation searches for. If the interface
// does not show the parameters, it returns those that are subjects of other operations.
func (o Operation) Subjects() (names []string) {
	for _, p := range params {
		known := endpoints[o].open || slices.Contains(p.ops, o)
		if known && p.Role == Subject && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// allParams returns all parameters of an operation, including from and size. The slice is shared.
func (o Operation) allParams() []Param { return paramsOf[o] }

// paramsOf is params by operation.
var paramsOf = func() map[Operation][]Param {
	all := map[Operation][]Param{}
	for _, p := range params {
		for _, o := range p.ops {
			all[o] = append(all[o], p)
		}
	}
	return all
}()

// isPaged reports whether an operation has pages.
func (o Operation) isPaged() bool { return slices.Contains(inPaged, o) }

// isRange reports whether the parameter is sent as two: see [Param.Names].
func (p Param) isRange() bool { return p.Form == Integers || p.Form == Numbers || p.Form == Instants }

// Names returns the names of the parameter on the wire.
func (p Param) Names() []string {
	if p.isRange() {
		return []string{p.Name + "From", p.Name + "To"}
	}
	return []string{p.Name}
}

// Integer formats a whole number as it is sent.
func Integer(n int64) string { return strconv.FormatInt(n, 10) }

// Number formats a number as it is sent.
func Number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// Instant formats a time as it is sent: with seconds and Z. The interface calls the seconds optional, but
// this form is valid in every interpretation.
func Instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// SetRange adds a range of times to params; a zero end is omitted.
func SetRange(params url.Values, name string, from, to time.Time) {
	if !from.IsZero() {
		params.Set(name+"From", Instant(from))
	}
	if !to.IsZero() {
		params.Set(name+"To", Instant(to))
	}
}
