package simulator

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator/library"
	"outlierd/outlier/simulator/rules"
)

// endpoint is one line of the interface, Endpoints and Credits per request.
type endpoint struct {
	op     outlier.Operation
	method string // "" means GET
	path   string // a prefix, followed by the id if there is a check of it
	price  outlier.Credits
	id     rules.Check
	params rules.Set
	open   bool // the interface does not list the parameters, so none is unknown
}

// operation is "" for an unknown path.
func (e *endpoint) operation() outlier.Operation {
	if e == nil {
		return ""
	}
	return e.op
}

// endpoints holds longer prefixes first.
var endpoints = []endpoint{
	{op: outlier.OpSearch, path: "/search/outliers", price: 2, params: searchRules},
	{op: outlier.OpRelated, path: "/search/outliers/related", price: 2, params: relatedRules},
	{op: outlier.OpFindChannels, path: "/search/channels", price: 5, params: findRules},
	{op: outlier.OpFindRelatedChannels, path: "/search/channels/related", price: 5, params: findRelatedRules},
	{op: outlier.OpTrendingFormats, path: "/search/trending-formats", price: 1, open: true},
	{op: outlier.OpStartScan, method: http.MethodPost, path: "/scan", price: fast.price},
	{op: outlier.OpScan, path: "/scan/", id: rules.ScanID},
	{op: outlier.OpChannelVideos, path: "/channel/videos/", id: rules.ChannelID},
	{op: outlier.OpChannelShorts, path: "/channel/shorts/", id: rules.ChannelID},
	{op: outlier.OpComments, path: "/video/comments/", id: rules.VideoID},
	{op: outlier.OpTranscript, path: "/video/transcript/", id: rules.VideoID},
	{op: outlier.OpDetails, path: "/video/", id: rules.VideoID},
}

// The status codes, which the interface does not show.
const (
	statusInvalid      = http.StatusBadRequest
	statusUnauthorized = http.StatusUnauthorized
	statusNoCredits    = http.StatusPaymentRequired
	statusLimited      = http.StatusTooManyRequests
	statusMissing      = http.StatusNotFound
)

// call is one request while it is answered.
type call struct {
	Call
	endpoint   *endpoint // nil for an unknown path
	method     string
	key        string // the header Authorization
	params     url.Values
	unreadable error             // why the query string cannot be read
	order      url.Values        // the body, if the endpoint takes one
	wrong      []rules.Complaint // about the body
	zip        bool
	real       time.Time // by the real clock
}

// readCall reads a request.
func (s *Service) readCall(r *http.Request) *call {
	c := &call{method: r.Method, key: r.Header.Get("Authorization"), zip: acceptsGzip(r.Header), real: time.Now()}
	c.At = s.options.now()
	c.params, c.unreadable = readQuery(r.URL.RawQuery, s.options.Arrays)
	c.endpoint, c.Entity = routeOf(r.URL.Path)
	c.Op = c.endpoint.operation()
	asked := c.params
	if c.Op == outlier.OpStartScan && c.method == http.MethodPost {
		if c.order, c.wrong = readOrder(r); len(c.wrong) == 0 {
			asked = c.order
		}
	}
	c.Identity = strings.Join([]string{string(c.Op), c.Entity, asked.Encode()}, " ")
	return c
}

func (c *call) instant() instant { return instant{c.At, c.real} }

// price is what a good answer costs.
func (c *call) price() outlier.Credits {
	if c.order.Get("mode") == standard.name {
		return standard.price
	}
	return c.endpoint.price
}

// isCacheable reports whether a repeat is free (interface, Credit rules). A POST is not: it
// starts another scan.
func (c *call) isCacheable() bool { return c.price() > 0 && c.method == http.MethodGet }

func routeOf(path string) (e *endpoint, entity string) {
	for i := range endpoints {
		e := &endpoints[i]
		rest, ok := strings.CutPrefix(path, e.path)
		if ok && (e.id == nil && rest == "" || e.id != nil && !strings.Contains(rest, "/")) {
			return e, rest
		}
	}
	return nil, ""
}

// refusal is a documented error returned instead of an answer.
type refusal struct {
	status int
	err    any // one of the shapes of the interface, Errors
	fault  Fault
}

func refusalOf(status int, message string) *refusal {
	return &refusal{status: status, err: simpleError{message}}
}

// answerCall checks a request, answers it from the library and charges for it.
func (s *Service) answerCall(r *http.Request) *reply {
	c := s.readCall(r)
	if r.URL.Path == booksPath {
		return s.booksReply(c)
	}
	for _, check := range []func(*call) *refusal{s.checkKey, s.checkLimit, checkEndpoint, s.checkRules} {
		if no := check(c); no != nil {
			return s.refuseCall(c, no)
		}
	}
	made := c.instant()
	if earlier, ok := s.ledger.cachedSince(c); ok {
		made = earlier
	}
	answer := s.findReply(c, made)
	if answer.status == statusMissing {
		c.Result, c.Status = Missing, answer.status
		s.ledger.bookFree(c.Call)
		return answer
	}
	return s.serveCharged(c, answer)
}

// checkKey checks the key, after the faults of earlier stages.
func (s *Service) checkKey(c *call) *refusal {
	switch f := s.faults.nextFault(c.Op, beforeConnection, beforeCounting); f {
	case Unreachable, DropRequest:
		return &refusal{fault: f}
	case Unauthorized:
		return &refusal{statusUnauthorized, simpleError{"Unauthorized"}, f}
	case RateLimited:
		current, reset, _ := s.window.countRequest(c.real, true)
		return s.limitRefusal(c, current, reset, f)
	}
	if !s.keyFits(c) {
		return refusalOf(statusUnauthorized, "Unauthorized")
	}
	return nil
}

func (s *Service) keyFits(c *call) bool { return c.key == "Api-Key "+s.options.Key }

func (s *Service) checkLimit(c *call) *refusal {
	current, reset, ok := s.window.countRequest(c.real, false)
	if ok {
		return nil
	}
	return s.limitRefusal(c, current, reset, Fault{})
}

func (s *Service) limitRefusal(c *call, current int, reset time.Duration, f Fault) *refusal {
	resetTime := c.At.Add(reset).Format(library.WithMillis)
	limit := rateLimit{Limit: s.options.Limit, Current: current, ResetTime: resetTime}
	return &refusal{statusLimited, rateLimitError{"Rate limit exceeded", limit}, f}
}

func checkEndpoint(c *call) *refusal {
	switch {
	case c.endpoint == nil:
		return refusalOf(statusMissing, "Not found")
	case c.method != c.endpoint.verb():
		return refusalOf(http.StatusMethodNotAllowed, "Method not allowed")
	}
	return nil
}

func (e *endpoint) verb() string { return cmp.Or(e.method, http.MethodGet) }

func (s *Service) checkRules(c *call) *refusal {
	if c.unreadable != nil {
		unreadable := rules.NewComplaint("invalid_query", "query", "The query string cannot be read")
		return &refusal{status: statusInvalid, err: validationError{[]rules.Complaint{*unreadable}}}
	}
	wrong, unknown := c.endpoint.params.FindViolations(c.params)
	if !c.endpoint.open {
		s.ledger.countUnknown(unknown)
	}
	if c.endpoint.id != nil {
		if bad := c.endpoint.id(c.Entity); bad != nil {
			wrong = append(wrong, bad.About("id"))
		}
	}
	wrong = append(wrong, c.wrong...)
	if len(wrong) > 0 {
		return &refusal{status: statusInvalid, err: validationError{wrong}}
	}
	return nil
}

// refuseCall records a refused call and returns the error.
func (s *Service) refuseCall(c *call, no *refusal) *reply {
	c.Result, c.Status, c.Fault, c.Scan = Refused, no.status, no.fault.name, ""
	if no.status == statusMissing {
		c.Result = Missing
	}
	s.ledger.bookFree(c.Call)
	if no.status == 0 {
		return &reply{ending: reset}
	}
	out := s.errorReply(c, no.status, no.err)
	if no.status == http.StatusMethodNotAllowed {
		out.header.Set("Allow", c.endpoint.verb())
	}
	return out
}

func (s *Service) errorReply(c *call, status int, err any) *reply {
	return s.encoder.encodeReply(status, errorAnswer{err, "error"}, c.zip, c.At)
}

// findReply answers from the library as of the given time. A frozen service keeps its answers,
// except those about scans.
func (s *Service) findReply(c *call, at instant) *reply {
	find := func() *reply {
		if answer := s.contentFor(c, at); answer != nil {
			return s.encoder.encodeReply(http.StatusOK, answer, c.zip, c.At)
		}
		return s.errorReply(c, statusMissing, simpleError{"Not found"})
	}
	if !s.options.Freeze || c.aboutScans() {
		return find()
	}
	key := c.Identity
	if c.zip {
		key += " gzip"
	}
	return s.encoder.replyFor(key, find)
}

// aboutScans reports whether an answer depends on scans, which change with the real clock.
func (c *call) aboutScans() bool {
	return c.Op == outlier.OpStartScan || c.Op == outlier.OpScan || c.params.Has("referenceId")
}

// contentFor is the answer to a valid request; nil if there is no such entity.
func (s *Service) contentFor(c *call, at instant) any {
	l := library.Open(s.options.Seed)
	switch c.Op {
	case outlier.OpSearch:
		x := s.indexFor(c, at)
		return hitPage(x, x.Find(c.params, l.Seed), c.params, s.options.paging())
	case outlier.OpRelated:
		x := s.indexFor(c, at)
		return hitPage(x, x.Related(c.params, l), c.params, s.options.paging())
	case outlier.OpFindChannels:
		return channelPage(l.Index(at.service).FindChannels(c.params, l.Seed), c.params, s.options.paging())
	case outlier.OpFindRelatedChannels:
		return channelPage(l.Index(at.service).RelatedChannels(c.params, l), c.params, s.options.paging())
	case outlier.OpTrendingFormats:
		return l.TrendingFormats(at.service)
	case outlier.OpStartScan:
		c.Scan = s.startScan(c.order, at)
		return s.scanAnswer(c.Scan, at)
	case outlier.OpScan:
		return s.scanAnswer(c.Entity, at)
	}
	return dataFor(l, c, at.service)
}

// dataFor is the answer of a data endpoint.
func dataFor(l *library.Library, c *call, at time.Time) any {
	switch c.Op {
	case outlier.OpChannelVideos:
		return l.ChannelAnswer(c.Entity, library.Video, at)
	case outlier.OpChannelShorts:
		return l.ChannelAnswer(c.Entity, library.Short, at)
	case outlier.OpDetails:
		return l.DetailsAnswer(c.Entity, at)
	case outlier.OpComments:
		return l.CommentsAnswer(c.Entity, at)
	default:
		return l.TranscriptAnswer(c.Entity, at)
	}
}

// serveCharged charges for a valid answer and returns it, unless a fault replaces it.
func (s *Service) serveCharged(c *call, good *reply) *reply {
	f := s.faults.nextFault(c.Op, beforeAnswer, beforeAnswer)
	if f == NoCredits {
		return s.refuseCall(c, &refusal{statusNoCredits, simpleError{"Insufficient credits"}, f})
	}
	out := s.applyFault(c, good, f)
	if !s.ledger.sellAnswer(c) {
		return s.errorReply(c, statusNoCredits, simpleError{"Insufficient credits"})
	}
	return out
}

// applyFault applies a fault to a good answer.
func (s *Service) applyFault(c *call, good *reply, f Fault) *reply {
	out := *good
	c.Result, c.Fault = Lost, f.name
	switch f.name {
	case ServerError.name:
		c.Result, c.Scan = Failed, ""
		out = *s.errorReply(c, http.StatusInternalServerError, simpleError{"Internal server error"})
	case GatewayPage.name:
		out = *newPage(http.StatusBadGateway, "text/html", []byte(gatewayHTML), c.At)
	case GatewayJSON.name:
		out = *newPage(http.StatusGatewayTimeout, mimeJSON, []byte(gatewayJSON), c.At)
	case HTMLPage.name:
		out = *newPage(http.StatusOK, "text/html; charset=utf-8", []byte(portalHTML), c.At)
	case Garbage.name:
		out = *newPage(http.StatusOK, mimeJSON, []byte(`{"pagination":{"total":1e,"items":[`), c.At)
	case DropAnswer.name:
		out = reply{ending: closed}
	case CutBody.name:
		out.ending = cut
	case Stall.name:
		out.ending = stalled
	default: // none, or Slow
		c.Result, out.delay = Served, f.delay
	}
	c.Status = out.status
	return &out
}

const (
	gatewayHTML = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>\n"
	gatewayJSON = `{"error":{"message":"upstream request timeout"}}`
	portalHTML  = "<!DOCTYPE html><html><head><title>Welcome</title></head><body><p>Please sign in to the network.</p></body></html>\n"
)
