package simulator

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"outlierd/internal/lazyregexp"
	"outlierd/outlier/simulator/library"
)

// The rules of the interface, written for the service alone: rules shared with the client
// would hide the client's mistakes.

// rule returns what is wrong with the values of a parameter; nil if nothing is.
type rule func(values []string) *complaint

const maxInteger = 9007199254740991

// searchRules are the parameters of GET /search/outliers.
var searchRules = mergeRules(commonRules, map[string]rule{
	"query":     listOf(anyText),
	"seed":      oneValue(anyText),
	"sortBy":    oneValue(oneOf("views", "zScore", "averageViewsRatio", "publishedAt", "revenue", "rpm")),
	"sortOrder": oneValue(oneOf("asc", "desc")),
})

// relatedRules are the parameters of GET /search/outliers/related.
var relatedRules = mergeRules(commonRules, map[string]rule{
	"title":            listOf(anyText),
	"videoId":          listOf(videoIDForm),
	"thumbnailVideoId": oneValue(videoIDForm),
	"relatedChannelId": listOf(channelIDForm),
})

// commonRules are the common filters of both.
var commonRules = map[string]rule{
	"type":                                  oneValue(oneOf("video", "short")),
	"averageViewsRatioFrom":                 oneValue(anyNumber),
	"averageViewsRatioTo":                   oneValue(anyNumber),
	"zScoreFrom":                            oneValue(anyNumber),
	"zScoreTo":                              oneValue(anyNumber),
	"viewCountFrom":                         oneValue(integerFrom(0, maxInteger)),
	"viewCountTo":                           oneValue(integerFrom(1, maxInteger)),
	"language":                              listOf(matchesExpr(`^[a-z]{2}$`)),
	"durationFrom":                          oneValue(integerFrom(0, maxInteger)),
	"durationTo":                            oneValue(integerFrom(1, maxInteger)),
	"publishedAtFrom":                       oneValue(dateTime),
	"publishedAtTo":                         oneValue(dateTime),
	"subscribersCountFrom":                  oneValue(integerFrom(0, maxInteger)),
	"subscribersCountTo":                    oneValue(integerFrom(1, maxInteger)),
	"channelAvgViewsFrom":                   oneValue(decimalFrom(0, false)),
	"channelAvgViewsTo":                     oneValue(decimalFrom(0, true)),
	"channelVideoCountFrom":                 oneValue(integerFrom(0, maxInteger)),
	"channelVideoCountTo":                   oneValue(integerFrom(1, 120)),
	"channelId":                             oneValue(anyText),
	"channelAvgViewsToSubscribersRatioFrom": oneValue(decimalFrom(0, false)),
	"channelAvgViewsToSubscribersRatioTo":   oneValue(decimalFrom(0, true)),
	"titlePattern":                          oneValue(titlePatternForm),
	"referenceId":                           oneValue(matchesExpr(`^(?s).+$`)),
	"rpmEstimationFrom":                     oneValue(decimalFrom(0, false)),
	"rpmEstimationTo":                       oneValue(decimalFrom(0, true)),
	"revenueEstimationFrom":                 oneValue(decimalFrom(0, false)),
	"revenueEstimationTo":                   oneValue(decimalFrom(0, true)),
	"channelMonetizationAdsense":            oneValue(oneOf("true", "false")),
	"channelMonetizationSponsored":          oneValue(oneOf("true", "false")),
	"classificationQuality":                 oneValue(oneOf("negative", "neutral", "positive")),
	"classificationIsFaceless":              oneValue(oneOf("true", "false")),
	"excludeKeyword":                        listOf(anyText),
	"from":                                  oneValue(integerFrom(0, maxInteger)),
	"size":                                  oneValue(integerFrom(1, 40)),
	"by":                                    oneValue(oneOf("semantic", "lexical")),
}

// findRules are the parameters of GET /search/channels.
var findRules = mergeRules(channelRules, map[string]rule{
	"query": listOf(anyText),
	"seed":  oneValue(anyText),
	"sortBy": oneValue(oneOf("subscribers", "averageViews", "avgViewsToSubscribersRatio", "viewVariationCoefficient",
		"revenueMonthly", "rpm", "foundAt", "recency")),
	"sortOrder": oneValue(oneOf("asc", "desc")),
})

// findRelatedRules are the parameters of GET /search/channels/related.
var findRelatedRules = mergeRules(channelRules, map[string]rule{"relatedChannelId": listOf(channelIDForm)})

// channelRules are the filters of both. Their bounds are not documented.
var channelRules = map[string]rule{
	"filterBy":                       oneValue(oneOf("video", "short")),
	"contentKind":                    oneValue(oneOf("video", "short", "long-form", "short-form")),
	"publishedAtFrom":                oneValue(dateTime),
	"publishedAtTo":                  oneValue(dateTime),
	"averageViewsFrom":               oneValue(anyNumber),
	"averageViewsTo":                 oneValue(anyNumber),
	"medianViewsFrom":                oneValue(anyNumber),
	"medianViewsTo":                  oneValue(anyNumber),
	"language":                       listOf(matchesExpr(`^[a-z]{2}$`)),
	"avgViewsToSubscribersRatioFrom": oneValue(anyNumber),
	"avgViewsToSubscribersRatioTo":   oneValue(anyNumber),
	"subscribersFrom":                oneValue(anyNumber),
	"subscribersTo":                  oneValue(anyNumber),
	"videosCountFrom":                oneValue(anyNumber),
	"videosCountTo":                  oneValue(anyNumber),
	"viewVariationCoefficientFrom":   oneValue(anyNumber),
	"viewVariationCoefficientTo":     oneValue(anyNumber),
	"revenueMonthlyEstimationFrom":   oneValue(anyNumber),
	"revenueMonthlyEstimationTo":     oneValue(anyNumber),
	"rpmEstimationFrom":              oneValue(decimalFrom(0, false)),
	"rpmEstimationTo":                oneValue(decimalFrom(0, true)),
	"avgDurationFrom":                oneValue(anyNumber),
	"avgDurationTo":                  oneValue(anyNumber),
	"monetizationAdsense":            oneValue(oneOf("true", "false")),
	"excludeNiche":                   listOf(anyText),
	"classificationQuality":          oneValue(oneOf("negative", "neutral", "positive")),
	"classificationIsFaceless":       oneValue(oneOf("true", "false")),
	"from":                           oneValue(integerFrom(0, maxInteger)),
	"size":                           oneValue(integerFrom(1, 40)),
}

var anyNumber = decimalFrom(math.Inf(-1), false)

// Identifiers.
var (
	channelIDForm = matchesExpr(`^[A-Za-z0-9_-]{24}$`)
	videoIDForm   = matchesExpr(`^[a-zA-Z0-9-_]{11}$`)
	scanIDForm    = matchesExpr(`^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$`)
)

// mergeRules joins two sets of rules.
func mergeRules(a, b map[string]rule) map[string]rule {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// findViolations checks parameters and returns all complaints, ordered by name, and the names
// without a rule. One parameter may be required.
func findViolations(p url.Values, rules map[string]rule, required string) (wrong []complaint, unknown []string) {
	if required != "" && !p.Has(required) {
		missing := newComplaint("invalid_type", "required", "Required")
		missing.Path = []string{required}
		wrong = append(wrong, *missing)
	}
	for name, values := range p {
		check, ok := rules[name]
		if !ok {
			unknown = append(unknown, name)
			continue
		}
		if c := check(values); c != nil {
			c.Path = []string{name}
			wrong = append(wrong, *c)
		}
	}
	slices.SortFunc(wrong, func(a, b complaint) int { return strings.Compare(a.Path[0], b.Path[0]) })
	return wrong, unknown
}

func newComplaint(code, validation, format string, args ...any) *complaint {
	return &complaint{Code: code, Validation: validation, Message: fmt.Sprintf(format, args...)}
}

// check is a rule for a single value.
type check func(value string) *complaint

func oneValue(c check) rule {
	return func(values []string) *complaint {
		if len(values) != 1 {
			return newComplaint("invalid_type", "single", "Expected one value, received %d", len(values))
		}
		return c(values[0])
	}
}

func listOf(c check) rule {
	return func(values []string) *complaint {
		for _, v := range values {
			if wrong := c(v); wrong != nil {
				return wrong
			}
		}
		return nil
	}
}

func anyText(string) *complaint { return nil }

func oneOf(allowed ...string) check {
	return func(v string) *complaint {
		if !slices.Contains(allowed, v) {
			return newComplaint("invalid_enum_value", "enum", "Expected %s", strings.Join(allowed, " | "))
		}
		return nil
	}
}

func matchesExpr(expr string) check {
	re := lazyregexp.New(expr)
	return func(v string) *complaint {
		if !re().MatchString(v) {
			return newComplaint("invalid_string", "regex", "Expected %s", expr)
		}
		return nil
	}
}

func integerFrom(least, most int64) check {
	return func(v string) *complaint {
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case err != nil:
			return newComplaint("invalid_type", "integer", "Expected an integer")
		case n < least:
			return newComplaint("too_small", "min", "Expected at least %d", least)
		case n > most:
			return newComplaint("too_big", "max", "Expected at most %d", most)
		}
		return nil
	}
}

var decimalForm = lazyregexp.New(`^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func decimalFrom(least float64, above bool) check {
	return func(v string) *complaint {
		n, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil || !decimalForm().MatchString(v):
			return newComplaint("invalid_type", "number", "Expected a number")
		case n < least:
			return newComplaint("too_small", "min", "Expected at least %g", least)
		case above && n <= least:
			return newComplaint("too_small", "exclusiveMin", "Expected more than %g", least)
		}
		return nil
	}
}

func dateTime(v string) *complaint {
	if _, ok := library.Moment(v); !ok {
		return newComplaint("invalid_string", "datetime", "Expected a date-time in UTC with a trailing Z")
	}
	return nil
}

var latinLetter = lazyregexp.New(`[A-Za-zÀ-ÖØ-öø-ɏḀ-ỿ]`)

func titlePatternForm(v string) *complaint {
	if n := utf8.RuneCountInString(v); n < 2 || n > 200 {
		return newComplaint("invalid_string", "length", "Expected 2 to 200 characters")
	}
	if !strings.Contains(v, "*") {
		return newComplaint("invalid_string", "regex", "Expected at least one *")
	}
	if len(latinLetter().FindAllString(v, 2)) < 2 {
		return newComplaint("invalid_string", "regex", "Expected at least two letters")
	}
	return nil
}
