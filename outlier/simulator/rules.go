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

	"outlierd/lazyregexp"
	"outlierd/outlier/simulator/library"
)

// The rules of the interface, written for the service alone: rules shared with the client
// would hide the client's mistakes.

// rule returns what is wrong with the values of a parameter; nil if nothing is.
type rule func(values []string) *complaint

const maxInteger = 9007199254740991

// searchRules are the parameters of GET /search/outliers.
var searchRules = merged(commonRules, map[string]rule{
	"query":     list(anything),
	"seed":      one(anything),
	"sortBy":    one(oneOf("views", "zScore", "averageViewsRatio", "publishedAt", "revenue", "rpm")),
	"sortOrder": one(oneOf("asc", "desc")),
})

// relatedRules are the parameters of GET /search/outliers/related.
var relatedRules = merged(commonRules, map[string]rule{
	"title":            list(anything),
	"videoId":          list(videoIDForm),
	"thumbnailVideoId": one(videoIDForm),
	"relatedChannelId": list(channelIDForm),
})

// commonRules are the common filters of both.
var commonRules = map[string]rule{
	"type":                                  one(oneOf("video", "short")),
	"averageViewsRatioFrom":                 one(anyNumber),
	"averageViewsRatioTo":                   one(anyNumber),
	"zScoreFrom":                            one(anyNumber),
	"zScoreTo":                              one(anyNumber),
	"viewCountFrom":                         one(integer(0, maxInteger)),
	"viewCountTo":                           one(integer(1, maxInteger)),
	"language":                              list(matching(`^[a-z]{2}$`)),
	"durationFrom":                          one(integer(0, maxInteger)),
	"durationTo":                            one(integer(1, maxInteger)),
	"publishedAtFrom":                       one(dateTime),
	"publishedAtTo":                         one(dateTime),
	"subscribersCountFrom":                  one(integer(0, maxInteger)),
	"subscribersCountTo":                    one(integer(1, maxInteger)),
	"channelAvgViewsFrom":                   one(decimal(0, false)),
	"channelAvgViewsTo":                     one(decimal(0, true)),
	"channelVideoCountFrom":                 one(integer(0, maxInteger)),
	"channelVideoCountTo":                   one(integer(1, 120)),
	"channelId":                             one(anything),
	"channelAvgViewsToSubscribersRatioFrom": one(decimal(0, false)),
	"channelAvgViewsToSubscribersRatioTo":   one(decimal(0, true)),
	"titlePattern":                          one(pattern),
	"referenceId":                           one(matching(`^(?s).+$`)),
	"rpmEstimationFrom":                     one(decimal(0, false)),
	"rpmEstimationTo":                       one(decimal(0, true)),
	"revenueEstimationFrom":                 one(decimal(0, false)),
	"revenueEstimationTo":                   one(decimal(0, true)),
	"channelMonetizationAdsense":            one(oneOf("true", "false")),
	"channelMonetizationSponsored":          one(oneOf("true", "false")),
	"classificationQuality":                 one(oneOf("negative", "neutral", "positive")),
	"classificationIsFaceless":              one(oneOf("true", "false")),
	"excludeKeyword":                        list(anything),
	"from":                                  one(integer(0, maxInteger)),
	"size":                                  one(integer(1, 40)),
	"by":                                    one(oneOf("semantic", "lexical")),
}

// findRules are the parameters of GET /search/channels.
var findRules = merged(channelRules, map[string]rule{
	"query": list(anything),
	"seed":  one(anything),
	"sortBy": one(oneOf("subscribers", "averageViews", "avgViewsToSubscribersRatio", "viewVariationCoefficient",
		"revenueMonthly", "rpm", "foundAt", "recency")),
	"sortOrder": one(oneOf("asc", "desc")),
})

// findRelatedRules are the parameters of GET /search/channels/related.
var findRelatedRules = merged(channelRules, map[string]rule{"relatedChannelId": list(channelIDForm)})

// channelRules are the filters of both. Their bounds are not documented.
var channelRules = map[string]rule{
	"filterBy":                       one(oneOf("video", "short")),
	"contentKind":                    one(oneOf("video", "short", "long-form", "short-form")),
	"publishedAtFrom":                one(dateTime),
	"publishedAtTo":                  one(dateTime),
	"averageViewsFrom":               one(anyNumber),
	"averageViewsTo":                 one(anyNumber),
	"medianViewsFrom":                one(anyNumber),
	"medianViewsTo":                  one(anyNumber),
	"language":                       list(matching(`^[a-z]{2}$`)),
	"avgViewsToSubscribersRatioFrom": one(anyNumber),
	"avgViewsToSubscribersRatioTo":   one(anyNumber),
	"subscribersFrom":                one(anyNumber),
	"subscribersTo":                  one(anyNumber),
	"videosCountFrom":                one(anyNumber),
	"videosCountTo":                  one(anyNumber),
	"viewVariationCoefficientFrom":   one(anyNumber),
	"viewVariationCoefficientTo":     one(anyNumber),
	"revenueMonthlyEstimationFrom":   one(anyNumber),
	"revenueMonthlyEstimationTo":     one(anyNumber),
	"rpmEstimationFrom":              one(anyNumber),
	"rpmEstimationTo":                one(anyNumber),
	"avgDurationFrom":                one(anyNumber),
	"avgDurationTo":                  one(anyNumber),
	"monetizationAdsense":            one(oneOf("true", "false")),
	"excludeNiche":                   list(anything),
	"classificationQuality":          one(oneOf("negative", "neutral", "positive")),
	"classificationIsFaceless":       one(oneOf("true", "false")),
	"from":                           one(integer(0, maxInteger)),
	"size":                           one(integer(1, 40)),
}

var anyNumber = decimal(math.Inf(-1), false)

// Identifiers.
var (
	channelIDForm = matching(`^[A-Za-z0-9_-]{24}$`)
	videoIDForm   = matching(`^[a-zA-Z0-9-_]{11}$`)
	scanIDForm    = matching(`^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$`)
)

// merged joins two sets of rules.
func merged(a, b map[string]rule) map[string]rule {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// violations checks parameters and returns all complaints, ordered by name, and the names
// without a rule. One parameter may be required.
func violations(p url.Values, rules map[string]rule, required string) (wrong []complaint, unknown []string) {
	if required != "" && !p.Has(required) {
		missing := broken("invalid_type", "required", "Required")
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

func broken(code, validation, format string, args ...any) *complaint {
	return &complaint{Code: code, Validation: validation, Message: fmt.Sprintf(format, args...)}
}

// check is a rule for a single value.
type check func(value string) *complaint

func one(c check) rule {
	return func(values []string) *complaint {
		if len(values) != 1 {
			return broken("invalid_type", "single", "Expected one value, received %d", len(values))
		}
		return c(values[0])
	}
}

func list(c check) rule {
	return func(values []string) *complaint {
		for _, v := range values {
			if wrong := c(v); wrong != nil {
				return wrong
			}
		}
		return nil
	}
}

func anything(string) *complaint { return nil }

func oneOf(allowed ...string) check {
	return func(v string) *complaint {
		if !slices.Contains(allowed, v) {
			return broken("invalid_enum_value", "enum", "Expected %s", strings.Join(allowed, " | "))
		}
		return nil
	}
}

func matching(expr string) check {
	re := lazyregexp.New(expr)
	return func(v string) *complaint {
		if !re().MatchString(v) {
			return broken("invalid_string", "regex", "Expected %s", expr)
		}
		return nil
	}
}

func integer(least, most int64) check {
	return func(v string) *complaint {
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case err != nil:
			return broken("invalid_type", "integer", "Expected an integer")
		case n < least:
			return broken("too_small", "min", "Expected at least %d", least)
		case n > most:
			return broken("too_big", "max", "Expected at most %d", most)
		}
		return nil
	}
}

var decimalForm = lazyregexp.New(`^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func decimal(least float64, above bool) check {
	return func(v string) *complaint {
		n, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil || !decimalForm().MatchString(v):
			return broken("invalid_type", "number", "Expected a number")
		case n < least:
			return broken("too_small", "min", "Expected at least %g", least)
		case above && n <= least:
			return broken("too_small", "exclusiveMin", "Expected more than %g", least)
		}
		return nil
	}
}

func dateTime(v string) *complaint {
	if _, ok := library.Moment(v); !ok {
		return broken("invalid_string", "datetime", "Expected a date-time in UTC with a trailing Z")
	}
	return nil
}

var latinLetter = lazyregexp.New(`[A-Za-zÀ-ÖØ-öø-ɏḀ-ỿ]`)

func pattern(v string) *complaint {
	if n := utf8.RuneCountInString(v); n < 2 || n > 200 {
		return broken("invalid_string", "length", "Expected 2 to 200 characters")
	}
	if !strings.Contains(v, "*") {
		return broken("invalid_string", "regex", "Expected at least one *")
	}
	if len(latinLetter().FindAllString(v, 2)) < 2 {
		return broken("invalid_string", "regex", "Expected at least two letters")
	}
	return nil
}
