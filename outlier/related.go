package outlier

// Related holds the parameters of GET /search/outliers/related, which finds
// outliers whose content is related to its seeds: titles, videos, a thumbnail,
// channels. It has at least one seed. A zero field is not sent.
type Related struct {
	Title            []string
	VideoID          []string
	ThumbnailVideoID string // a video whose thumbnail is the seed
	RelatedChannelID []string
	By               string // semantic (the service's default) or lexical
	Filters
}

// Fields lists every parameter but from and size, as [Search.Fields] does.
func (r *Related) Fields() []Field {
	return append([]Field{
		{Name: "title", Value: &r.Title},
		{Name: "videoId", Value: &r.VideoID, text: checkVideoID},
		{Name: "thumbnailVideoId", Value: &r.ThumbnailVideoID, text: checkVideoID},
		{Name: "relatedChannelId", Value: &r.RelatedChannelID, text: checkChannelID},
		{Name: "by", Value: &r.By, OneOf: matching},
	}, r.Filters.fields()...)
}

// Check applies the rules of the interface to every parameter, and one of ours:
// the interface allows a request without any seed, which is answered with
// whatever there is, and paid for.
func (r *Related) Check() []FieldError {
	wrong := checkFields(r.Fields())
	if len(r.Title)+len(r.VideoID)+len(r.RelatedChannelID) == 0 && r.ThumbnailVideoID == "" {
		wrong = append(wrong, FieldError{Code: codeRequired,
			Message: "title, videoId, thumbnailVideoId and relatedChannelId are all missing; give at least one to relate to"})
	}
	return wrong
}

// Request makes the request for one page, as [Search.Request] does.
func (r *Related) Request(from, size int) (*Request, error) {
	return requestPage(OpRelated, r.Fields(), r.Check(), from, size)
}
