package outlier

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Operation names one endpoint. Its text is the endpoint's name everywhere: in
// jobs.yaml, in the tables, in logs.
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

// The identifiers of the interface, Endpoints. Its class [a-zA-Z0-9-_] for videos
// is the class below.
var (
	channelID = regexp.MustCompile(`^[A-Za-z0-9_-]{24}$`)
	videoID   = regexp.MustCompile(`^[A-Za-z0-9_-]{11}$`)
	scanID    = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)
)

// An endpoint is what the interface fixes about one operation.
type endpoint struct {
	method string         // "" is GET
	path   string         // with a trailing slash where an id follows
	id     *regexp.Regexp // nil where none follows
	fields func() []Field // its parameters but from and size; nil if it has none, or none that is known
}

var endpoints = map[Operation]endpoint{
	OpSearch:              {path: "/search/outliers", fields: func() []Field { return new(Search).Fields() }},
	OpRelated:             {path: "/search/outliers/related", fields: func() []Field { return new(Related).Fields() }},
	OpFindChannels:        {path: "/search/channels", fields: func() []Field { return new(FindChannels).Fields() }},
	OpFindRelatedChannels: {path: "/search/channels/related", fields: func() []Field { return new(FindRelatedChannels).Fields() }},
	OpTrendingFormats:     {path: "/search/trending-formats"},
	OpStartScan:           {method: http.MethodPost, path: "/scan", fields: func() []Field { return new(StartScan).Fields() }},
	OpScan:                {path: "/scan/", id: scanID},
	OpChannelVideos:       {path: "/channel/videos/", id: channelID},
	OpChannelShorts:       {path: "/channel/shorts/", id: channelID},
	OpDetails:             {path: "/video/", id: videoID},
	OpComments:            {path: "/video/comments/", id: videoID},
	OpTranscript:          {path: "/video/transcript/", id: videoID},
}

// Request is one call, ready to send. It is made by a parameter struct that has
// validated itself ([Search.Request] and the like), by [DataRequest], or again from
// the parameters of one that was, so a Request that exists obeys the interface.
type Request struct {
	Op     Operation
	Path   string     // below the base address, its id escaped: "/video/dQw4w9WgXcQ"
	Entity string     // the id that a data endpoint is asked about; "" for all others
	Params url.Values // parameters, lists in the order given; of a POST those of its body
	Price  Credits    // what an answer costs at most: the documented price, unless the caller knows better
}

// Paid reports whether an answer to r costs credits.
func (r *Request) Paid() bool { return r.Price > 0 }

// Identity is equal for two requests exactly when the service is asked the same
// thing: the operation, the entity and the canonical parameters.
func (r *Request) Identity() string {
	return strings.Join([]string{string(r.Op), r.Entity, r.Params.Encode()}, " ")
}

// DataRequest asks a data endpoint about one channel or video, or reads the record
// of one scan. An id that does not have the form of the interface, Endpoints, is an
// [Error] of kind [Invalid].
func DataRequest(op Operation, id string) (*Request, error) {
	e, ok := endpoints[op]
	if !ok || e.id == nil {
		return nil, fmt.Errorf("%q is not a data endpoint", op)
	}
	if !e.id.MatchString(id) {
		return nil, invalid(op, id, FieldError{Path: "id", Code: codePattern, Message: "must match " + e.id.String()})
	}
	return &Request{Op: op, Path: e.path + id, Entity: id}, nil
}

// PageRequest makes the request for a page that was checked before, from the
// parameters of an earlier one with another `from`. It serves the paged operations
// (search, related, find_channels, find_related_channels) and trending_formats.
func PageRequest(op Operation, params url.Values) *Request {
	r := &Request{Op: op, Path: endpoints[op].path, Params: params}
	r.Price = documented.Of(r)
	return r
}

// CheckParams holds the parameters of a page, without from and size, to the rules of the
// interface. One that breaks a rule gives an [Error] of kind [Invalid] that lists every such
// parameter.
func CheckParams(op Operation, params url.Values) error {
	fields := (&Request{Op: op}).fields()
	for _, f := range fields {
		f.read(params)
	}
	wrong := checkFields(fields)
	known := Params(fields)
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Equal(known[name], params[name]) { // what is not known was not read
			wrong = append(wrong, FieldError{name, codePattern, fmt.Sprintf("cannot be %q", params[name])})
		}
	}
	if len(wrong) > 0 {
		return invalid(op, "", wrong...)
	}
	return nil
}

// requestPage makes the request for one page of what fields hold, unless something is
// wrong with them. From counts pages or items, whichever the service means by it.
func requestPage(op Operation, fields []Field, wrong []FieldError, from, size int) (*Request, error) {
	wrong = append(wrong, checkPage(int64(from), int64(size))...)
	if len(wrong) > 0 {
		return nil, invalid(op, "", wrong...)
	}
	params := Params(fields)
	params.Set("from", strconv.Itoa(from))
	params.Set("size", strconv.Itoa(size))
	return PageRequest(op, params), nil
}

// invalid refuses a request before it exists.
func invalid(op Operation, entity string, wrong ...FieldError) *Error {
	return &Error{Kind: Invalid, Op: op, Entity: clean(entity), Fields: wrong}
}
