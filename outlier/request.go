package outlier

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Credits is an amount of the service's money.
type Credits int64

// Operation names one endpoint. Its text is the endpoint's name everywhere: in
// jobs.yaml, in the tables, in logs.
type Operation string

// The operations of the interface, Endpoints.
const (
	OpSearch        Operation = "search"         // GET /search/outliers
	OpChannelVideos Operation = "channel_videos" // GET /channel/videos/{id}
	OpChannelShorts Operation = "channel_shorts" // GET /channel/shorts/{id}
	OpDetails       Operation = "details"        // GET /video/{id}
	OpComments      Operation = "comments"       // GET /video/comments/{id}
	OpTranscript    Operation = "transcript"     // GET /video/transcript/{id}
)

// The identifiers of the interface, Endpoints. Its class [a-zA-Z0-9-_] for videos
// is the class below.
var (
	channelID = regexp.MustCompile(`^[A-Za-z0-9_-]{24}$`)
	videoID   = regexp.MustCompile(`^[A-Za-z0-9_-]{11}$`)
)

// An endpoint is what the interface fixes about one operation.
type endpoint struct {
	path  string         // with a trailing slash where an id follows
	id    *regexp.Regexp // nil where none follows
	price Credits        // interface, Limits, Credits per request
}

var endpoints = map[Operation]endpoint{
	OpSearch:        {path: "/search/outliers", price: 2},
	OpChannelVideos: {path: "/channel/videos/", id: channelID},
	OpChannelShorts: {path: "/channel/shorts/", id: channelID},
	OpDetails:       {path: "/video/", id: videoID},
	OpComments:      {path: "/video/comments/", id: videoID},
	OpTranscript:    {path: "/video/transcript/", id: videoID},
}

// Price is what one answer costs at most by the interface, Limits, Credits per
// request. It is the documented price: a cached answer costs nothing, but
// nothing in an answer says that it was cached.
func (o Operation) Price() Credits { return endpoints[o].price }

// Request is one call, ready to send. It is made by a parameter struct that has
// validated itself ([Search.Request]) or by [DataRequest], so a Request that
// exists obeys the interface.
type Request struct {
	Op     Operation
	Path   string     // below the base address, its id escaped: "/video/dQw4w9WgXcQ"
	Entity string     // the id that a data endpoint is asked about; "" for searches
	Params url.Values // query parameters, lists in the order given
	Price  Credits    // what an answer costs at most; 0 for data endpoints
}

// Paid reports whether an answer to r costs credits.
func (r *Request) Paid() bool { return r.Price > 0 }

// Identity is equal for two requests exactly when the service is asked the same
// thing: the operation, the entity and the canonical parameters.
func (r *Request) Identity() string {
	return strings.Join([]string{string(r.Op), r.Entity, r.Params.Encode()}, " ")
}

// DataRequest asks a data endpoint about one channel or video. An id that does
// not have the form of the interface, Endpoints, is an [Error] of kind [Invalid].
func DataRequest(op Operation, id string) (*Request, error) {
	e, ok := endpoints[op]
	if !ok || e.id == nil {
		return nil, fmt.Errorf("%q is not a data endpoint", op)
	}
	if !e.id.MatchString(id) {
		return nil, &Error{Kind: Invalid, Op: op, Entity: clean(id), Fields: []FieldError{{
			Path: "id", Code: "pattern", Message: "must match " + e.id.String(),
		}}}
	}
	return &Request{Op: op, Path: e.path + id, Entity: id, Price: e.price}, nil
}

// encode writes parameters as the service reads them. How it reads arrays is not
// shown; services of this shape take the key once per element, query=a&query=b,
// and this is the one place that says so. Keys are sorted, elements are not.
func encode(params url.Values) string { return params.Encode() }
