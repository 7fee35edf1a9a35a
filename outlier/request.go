package outlier

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Operation is the name of an endpoint. It is the same everywhere: in jobs.yaml, in the tables, in logs.
type Operation string

// The operations of the interface, Endpoints.
const (
	OpSearch              Operation = "search"                // GET /search/outliers
	OpRelated             Operation = "related"               // GET /search/outliers/related
	OpFindChannels        Operation = "find_channels"         // GET /search/channels
	OpFindRelatedChannels Operation = "find_related_channels" // GET /search/channels/related
	OpTrendingFormats     Operation = "trending_formats"      // GET /search/trending-formats
	OpStartScan           Operation = "start_scan"            // POST /scan
	OpScan                Operation = "scan"                  // GET /scan/{id}
	OpChannelVideos       Operation = "channel_videos"        // GET /channel/videos/{id}
	OpChannelShorts       Operation = "channel_shorts"        // GET /channel/shorts/{id}
	OpDetails             Operation = "details"               // GET /video/{id}
	OpComments            Operation = "comments"              // GET /video/comments/{id}
	OpTranscript          Operation = "transcript"            // GET /video/transcript/{id}
)

// The forms of ids in the interface, Endpoints. Its class [a-zA-Z0-9-_] for videos is the one below.
var (
	channelID = regexp.MustCompile(`^[A-Za-z0-9_-]{24}$`)
	videoID   = regexp.MustCompile(`^[A-Za-z0-9_-]{11}$`)
	scanID    = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)
)

// An endpoint is what the interface fixes for one operation; see [Operation.Params] for its parameters.
type endpoint struct {
	method string         // "" means GET
	path   string         // with a trailing slash if an id follows
	id     *regexp.Regexp // nil if no id follows
	price  Credits        // documented; 0 is free. That of a scan depends on its mode: see scanPrices
	open   bool           // the interface does not show its parameters: they are sent as given
}

var endpoints = map[Operation]endpoint{
	OpSearch:              {path: "/search/outliers", price: 2},
	OpRelated:             {path: "/search/outliers/related", price: 2},
	OpFindChannels:        {path: "/search/channels", price: 5},
	OpFindRelatedChannels: {path: "/search/channels/related", price: 5},
	OpTrendingFormats:     {path: "/search/trending-formats", price: 1, open: true},
	OpStartScan:           {path: "/scan", price: 100, method: http.MethodPost},
	OpScan:                {path: "/scan/", id: scanID},
	OpChannelVideos:       {path: "/channel/videos/", id: channelID},
	OpChannelShorts:       {path: "/channel/shorts/", id: channelID},
	OpDetails:             {path: "/video/", id: videoID},
	OpComments:            {path: "/video/comments/", id: videoID},
	OpTranscript:          {path: "/video/transcript/", id: videoID},
}

// Path returns the path of an operation relative to the base address. It ends with a slash if an id
// follows.
func (o Operation) Path() string { return endpoints[o].path }

// Method returns the HTTP method of an operation.
func (o Operation) Method() string { return cmp.Or(endpoints[o].method, http.MethodGet) }

// IsData reports whether an operation asks about one entity, see [DataRequest].
func (o Operation) IsData() bool { return endpoints[o].id != nil }

// Operations returns all operations.
func Operations() []Operation { return slices.Sorted(maps.Keys(endpoints)) }

// Request is one call, ready to send. [NewRequest] and [DataRequest] check it against the interface, so
// every Request is valid.
type Request struct {
	op     Operation
	path   string     // relative to the base address, with the id escaped: "/video/dQw4w9WgXcQ"
	entity string     // the id that a data endpoint is called with; "" for other operations
	params url.Values // parameters, lists in the given order; for a POST those of the body
	price  Credits    // maximum price of an answer
}

// Op returns the operation of r.
func (r *Request) Op() Operation { return r.op }

// Entity returns the id that a data endpoint is called with; "" for other operations.
func (r *Request) Entity() string { return r.entity }

// Params returns the parameters as they are sent, lists in the given order; for a POST those of the body.
// The caller may change them.
func (r *Request) Params() url.Values { return cloneParams(r.params) }

// Price returns the maximum price of an answer, in credits.
func (r *Request) Price() Credits { return r.price }

// Paid reports whether an answer to r costs credits.
func (r *Request) Paid() bool { return r.price > 0 }

// cloneParams returns a deep copy of params without empty lists.
func cloneParams(params url.Values) url.Values {
	all := make(url.Values, len(params))
	for name, values := range params {
		if len(values) > 0 {
			all[name] = slices.Clone(values)
		}
	}
	return all
}

// NewRequest returns a request for a page of a search, for trending formats or for a new scan, from its
// parameters as they are sent. It does not change params. For a new scan it adds the service's defaults,
// so that equal scans have equal identities and the price of the right mode is reserved. Missing prices
// are the documented ones.
//
// If parameters are invalid, it returns an [Error] of kind [Invalid] that lists all of them.
func NewRequest(op Operation, params url.Values, prices Prices) (*Request, error) {
	e, ok := endpoints[op]
	if !ok || e.id != nil {
		return nil, fmt.Errorf("%q is neither a search nor the start of a scan", op)
	}
	sent := cloneParams(params)
	for _, p := range op.allParams() {
		if p.always != "" && !sent.Has(p.Name) {
			sent.Set(p.Name, p.always)
		}
	}
	if wrong := checkParams(op, sent); len(wrong) > 0 {
		return nil, invalidRequest(op, "", wrong...)
	}
	return &Request{op: op, path: e.path, params: sent, price: prices.Of(op, sent.Get("mode"))}, nil
}

// DataRequest returns a request of a data endpoint about one channel or video, or for the record of one
// scan. If the id does not have the form of the interface, Endpoints, it returns an [Error] of kind
// [Invalid].
func DataRequest(op Operation, id string) (*Request, error) {
	e, ok := endpoints[op]
	if !ok || e.id == nil {
		return nil, fmt.Errorf("%q is not a data endpoint", op)
	}
	if !e.id.MatchString(id) {
		message := "must match " + e.id.String()
		return nil, invalidRequest(op, id, FieldError{Path: "id", Code: codePattern, Message: message})
	}
	return &Request{op: op, path: e.path + id, entity: id}, nil
}

// checkParams checks all parameters of a request, and refuses parameters that the operation does not
// have: a misspelled filter would be charged for and not applied.
func checkParams(op Operation, params url.Values) (wrong []FieldError) {
	if endpoints[op].open {
		return checkOpen(params)
	}
	names := map[string]bool{}
	for _, p := range op.allParams() {
		for _, name := range p.Names() {
			names[name] = true
		}
		if op == OpStartScan && p.Name == "query" && params.Get("findBy") == FindByChannels {
			p.text = checkChannelID
		}
		wrong = append(wrong, p.Check(params)...)
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !names[name] {
			message := fmt.Sprintf("is not a parameter of %s", op)
			wrong = append(wrong, FieldError{Path: cleanLine(name), Code: CodeUnknown, Message: message})
		}
	}
	// The interface allows a related search without a seed, which returns arbitrary results and is
	// charged.
	if op == OpRelated && !slices.ContainsFunc(op.Subjects(), params.Has) {
		wrong = append(wrong, FieldError{Code: codeRequired, Message: noSeeds})
	}
	return wrong
}

const noSeeds = "title, videoId, thumbnailVideoId and relatedChannelId are all missing; " +
	"give at least one to relate to"

// checkOpen refuses only what cannot be a parameter.
func checkOpen(params url.Values) (wrong []FieldError) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		switch {
		case strings.TrimSpace(name) == "":
			wrong = append(wrong, FieldError{Code: codePattern, Message: "a parameter has no name"})
		case !utf8.ValidString(name + strings.Join(params[name], "")):
			wrong = append(wrong, FieldError{Path: name, Code: codePattern, Message: "is not valid UTF-8"})
		}
	}
	return wrong
}

// invalidRequest returns the error for a request with invalid parameters.
func invalidRequest(op Operation, entity string, wrong ...FieldError) *Error {
	return &Error{Kind: Invalid, Op: op, Entity: cleanLine(entity), Fields: wrong}
}
