package simulator

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/simulator/library"
)

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
	method     string
	key        string // the header Authorization
	params     url.Values
	unreadable error       // why the query string cannot be read
	order      url.Values  // the body, if the endpoint takes one
	wrong      []complaint // about the body
	zip        bool
	real       time.Time // by the real clock
}

// readCall reads a request.
func (s *Service) readCall(r *http.Request) *call {
	c := &call{method: r.Method, key: r.Header.Get("Authorization"), zip: strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"), real: s.options.Clock()}
	c.At = s.options.now()
	c.params, c.unreadable = url.ParseQuery(r.URL.RawQuery)
	c.Op, c.Entity = routeOf(r.URL.Path)
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
func (c *call) price() outlier.Credits { return outlier.Prices(nil).Of(c.Op, c.order.Get("mode")) }

// isCacheable reports whether a repeat is free (interface, Credit rules). A POST is not: it
// starts another scan.
func (c *call) isCacheable() bool { return c.price() > 0 && c.method == http.MethodGet }

// routeOf returns the operation of a path, "" for an unknown one, and the id in the path.
func routeOf(path string) (op outlier.Operation, entity string) {
	for _, op := range outlier.Operations() {
		rest, ok := strings.CutPrefix(path, op.Path())
		if ok && (rest == "" || op.IsData() && !strings.Contains(rest, "/")) {
			return op, rest
		}
	}
	return "", ""
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
	for _, check := range []func(*call) *refusal{s.checkKey, s.checkLimit, checkEndpoint, s.checkParams} {
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
	case c.Op == "":
		return refusalOf(statusMissing, "Not found")
	case c.method != c.Op.Method():
		return refusalOf(http.StatusMethodNotAllowed, "Method not allowed")
	}
	return nil
}

// checkParams checks the parameters as the client does. Parameters that the interface does not name are
// counted, and otherwise ignored.
func (s *Service) checkParams(c *call) *refusal {
	if c.unreadable != nil {
		return refusalFor([]complaint{newComplaint("invalid_query", "The query string cannot be read")})
	}
	wrong := c.wrong
	switch {
	case c.Op.IsData():
		s.ledger.countUnknown(slices.Collect(maps.Keys(c.params)))
		_, err := outlier.DataRequest(c.Op, c.Entity)
		wrong = complaintsIn(err)
	case c.Op == outlier.OpStartScan:
		s.ledger.countUnknown(slices.Collect(maps.Keys(c.params)))
	default:
		_, err := outlier.NewRequest(c.Op, c.params, nil)
		for _, w := range complaintsIn(err) {
			if w.Code == outlier.CodeUnknown {
				s.ledger.countUnknown(w.Path)
			} else {
				wrong = append(wrong, w)
			}
		}
	}
	if len(wrong) > 0 {
		return refusalFor(wrong)
	}
	return nil
}

func refusalFor(wrong []complaint) *refusal {
	return &refusal{status: statusInvalid, err: validationError{wrong}}
}

func newComplaint(code, message string) complaint { return complaint{code, code, message, []string{}} }

// complaintsIn returns what the client says is wrong with a request, ordered by parameter.
func complaintsIn(err error) (wrong []complaint) {
	invalid, _ := errors.AsType[*outlier.Error](err)
	if invalid == nil {
		return nil
	}
	for _, f := range invalid.Fields {
		c := newComplaint(f.Code, f.Message)
		if f.Path != "" {
			c.Path = []string{f.Path}
		}
		wrong = append(wrong, c)
	}
	slices.SortStableFunc(wrong, func(a, b complaint) int { return slices.Compare(a.Path, b.Path) })
	return wrong
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
	out := errorReply(c, no.status, no.err)
	if no.status == http.StatusMethodNotAllowed {
		out.header.Set("Allow", c.Op.Method())
	}
	return out
}

func errorReply(c *call, status int, err any) *reply {
	return encodeReply(status, errorAnswer{err, "error"}, c.zip, c.At)
}

// findReply answers from the library as of the given time.
func (s *Service) findReply(c *call, at instant) *reply {
	if answer := s.contentFor(c, at); answer != nil {
		return encodeReply(http.StatusOK, answer, c.zip, c.At)
	}
	return errorReply(c, statusMissing, simpleError{"Not found"})
}

// contentFor is the answer to a valid request; nil if there is no such entity.
func (s *Service) contentFor(c *call, at instant) any {
	l := library.Open(s.options.Seed)
	switch c.Op {
	case outlier.OpSearch, outlier.OpRelated:
		x := s.indexFor(c, at)
		hits := x.Find(c.params, l)
		return s.options.paging().cutPage(c.params, len(hits), func(i int) any { return hits[i].Answer(x.At) })
	case outlier.OpFindChannels, outlier.OpFindRelatedChannels:
		found := l.Index(at.service).FindChannels(c.params, l)
		return s.options.paging().cutPage(c.params, len(found), func(i int) any { return found[i].Answer() })
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
		return errorReply(c, statusNoCredits, simpleError{"Insufficient credits"})
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
		out = *errorReply(c, http.StatusInternalServerError, simpleError{"Internal server error"})
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
