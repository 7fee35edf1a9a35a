package outlier

import (
	"fmt"
	"time"

	"github.com/go-faster/jx"
)

// The interface names the two searches for channels by their prices alone.
// Parameters and answers are those of services of this shape.

// ChannelFilters are the parameters that both searches for channels share, but for
// from and size, which belong to one page. A zero field is not sent.
type ChannelFilters struct {
	FilterBy                   string           // video or short: which sample the metrics are of
	ContentKind                string           // video, short, long-form or short-form: what the channel publishes
	PublishedAt                Range[time.Time] // sent in UTC, in whole seconds
	AverageViews               Range[float64]
	MedianViews                Range[float64]
	Language                   []string // ISO 639-1
	AvgViewsToSubscribersRatio Range[float64]
	Subscribers                Range[float64]
	VideosCount                Range[float64]
	ViewVariationCoefficient   Range[float64] // standard deviation of views over their average
	RevenueMonthlyEstimation   Range[float64]
	RPMEstimation              Range[float64]
	AvgDuration                Range[float64] // seconds
	MonetizationAdsense        *bool
	ExcludeNiche               []string
	ClassificationQuality      string // negative, neutral or positive
	ClassificationIsFaceless   *bool
}

// fields bounds what the common filters bound of the same quantities elsewhere:
// From is not negative, To is positive.
func (f *ChannelFilters) fields() []Field {
	return []Field{
		{Name: "filterBy", Value: &f.FilterBy, OneOf: []string{"video", "short"}},
		{Name: "contentKind", Value: &f.ContentKind, OneOf: []string{"video", "short", "long-form", "short-form"}},
		{Name: "publishedAt", Value: &f.PublishedAt},
		{Name: "averageViews", Value: &f.AverageViews, positive: true},
		{Name: "medianViews", Value: &f.MedianViews, positive: true},
		{Name: "language", Value: &f.Language, text: checkLanguage},
		{Name: "avgViewsToSubscribersRatio", Value: &f.AvgViewsToSubscribersRatio, positive: true},
		{Name: "subscribers", Value: &f.Subscribers, positive: true},
		{Name: "videosCount", Value: &f.VideosCount, positive: true},
		{Name: "viewVariationCoefficient", Value: &f.ViewVariationCoefficient, positive: true},
		{Name: "revenueMonthlyEstimation", Value: &f.RevenueMonthlyEstimation, positive: true},
		{Name: "rpmEstimation", Value: &f.RPMEstimation, positive: true},
		{Name: "avgDuration", Value: &f.AvgDuration, positive: true},
		{Name: "monetizationAdsense", Value: &f.MonetizationAdsense},
		{Name: "excludeNiche", Value: &f.ExcludeNiche},
		{Name: "classificationQuality", Value: &f.ClassificationQuality, OneOf: qualities},
		{Name: "classificationIsFaceless", Value: &f.ClassificationIsFaceless},
	}
}

// FindChannels holds the parameters of GET /search/channels. The zero FindChannels
// asks for everything.
type FindChannels struct {
	Query     []string
	Seed      string // any text; randomises the order
	SortBy    string // one of the OneOf of its field
	SortOrder string // asc or desc
	ChannelFilters
}

// Fields lists every parameter but from and size, as [Search.Fields] does.
func (c *FindChannels) Fields() []Field {
	return append([]Field{
		{Name: "query", Value: &c.Query},
		{Name: "seed", Value: &c.Seed},
		{Name: "sortBy", Value: &c.SortBy, OneOf: []string{
			"subscribers", "averageViews", "avgViewsToSubscribersRatio", "viewVariationCoefficient", "revenueMonthly", "rpm", "foundAt", "recency"}},
		{Name: "sortOrder", Value: &c.SortOrder, OneOf: orders},
	}, c.ChannelFilters.fields()...)
}

// Check applies the rules to every parameter.
func (c *FindChannels) Check() []FieldError { return checkFields(c.Fields()) }

// Request makes the request for one page, as [Search.Request] does.
func (c *FindChannels) Request(from, size int) (*Request, error) {
	return requestPage(OpFindChannels, c.Fields(), c.Check(), from, size)
}

// FindRelatedChannels holds the parameters of GET /search/channels/related.
type FindRelatedChannels struct {
	RelatedChannelID []string // at least one
	ChannelFilters
}

// Fields lists every parameter but from and size, as [Search.Fields] does.
func (c *FindRelatedChannels) Fields() []Field {
	return append([]Field{
		{Name: "relatedChannelId", Value: &c.RelatedChannelID, required: true, text: checkChannelID},
	}, c.ChannelFilters.fields()...)
}

// Check applies the rules to every parameter.
func (c *FindRelatedChannels) Check() []FieldError { return checkFields(c.Fields()) }

// Request makes the request for one page, as [Search.Request] does.
func (c *FindRelatedChannels) Request(from, size int) (*Request, error) {
	return requestPage(OpFindRelatedChannels, c.Fields(), c.Check(), from, size)
}

// ReadChannelPage reads the answer of a search for channels as [ReadPage] does
// that of a search for outliers. Its hits have a ChannelID, and Facts under the
// names that FindChannels sorts by; what recency orders by is not known, so there
// is none of that name.
func ReadChannelPage(body []byte) (Page, error) {
	p, err := readPage(body, (*Hit).readChannel)
	if err != nil {
		return Page{}, fmt.Errorf("read a page of channels: %w", err)
	}
	return p, nil
}

func (h *Hit) readChannel(d *jx.Decoder) error {
	return object(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "id":
			return ident(d, &h.ChannelID)
		case "kind":
			return text(d, &h.Kind)
		case "statistics":
			return h.readChannelStatistics(d)
		case "monetization":
			return h.readEstimates(d, channelEstimates)
		case "classification":
			return h.readClassification(d)
		case "language":
			return object(d, func(d *jx.Decoder, key string) error {
				if key == "code" {
					return h.word(d, "language")
				}
				return d.Skip()
			})
		case "foundAt":
			return h.readInstant(d, key)
		}
		return d.Skip()
	})
}

// channelEstimates are to channels what hitEstimates are to outliers.
var channelEstimates = map[string]string{"revenueMonthlyEstimation": "revenueMonthly", "rpmEstimation": "rpm"}

func (h *Hit) readChannelStatistics(d *jx.Decoder) error {
	return object(d, func(d *jx.Decoder, key string) error {
		switch key {
		case "subscribers", "averageViews", "avgViewsToSubscribersRatio", "viewVariationCoefficient":
			return h.fact(d, key)
		}
		return d.Skip()
	})
}
