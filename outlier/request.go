package outlier

import (
	"net/url"
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

// Request is one call, ready to send. It is made by a parameter struct that has
// validated itself ([Search.Request]) or by a function for a data endpoint
// ([ChannelVideos] and the others), so a Request that exists obeys the interface.
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
