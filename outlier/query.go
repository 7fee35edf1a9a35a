package outlier

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// A Query is what a search, trending formats or the start of a scan requests: an operation and its
// parameters, without from and size, which belong to one page. It is a value: queries are equal if and
// only if they request the same. The zero Query requests nothing.
type Query struct {
	op     Operation
	params string // canonical: sorted by name, lists in the given order
}

// NewQuery returns a query with parameters in the form in which they are sent, and checks them like
// [NewRequest].
func NewQuery(op Operation, params url.Values) (Query, error) {
	r, err := NewRequest(op, params, nil)
	if err != nil {
		return Query{}, err
	}
	return Query{op, r.params.Encode()}, nil
}

// UncheckedQuery returns a query from a text of [Query.Encode]: a stored one, which may be older than a
// rule of today, or one with values that are not known yet. [Query.Request] and [Query.Page] check it, so
// no unchecked request is sent.
func UncheckedQuery(op Operation, params string) Query { return Query{op, params} }

// Op returns the operation of q.
func (q Query) Op() Operation { return q.op }

// Encode returns the canonical text of the parameters, which is stored.
func (q Query) Encode() string { return q.params }

// Params returns the parameters as they are sent. The caller may change them. Texts that are not
// parameters are omitted; making a request reports them.
func (q Query) Params() url.Values {
	params, _ := url.ParseQuery(q.params)
	return params
}

// Published returns the range of publishedAt; a missing end is zero.
func (q Query) Published() (from, to time.Time) {
	params := q.Params()
	from, _ = time.Parse(time.RFC3339, params.Get("publishedAtFrom"))
	to, _ = time.Parse(time.RFC3339, params.Get("publishedAtTo"))
	return from, to
}

// PublishedIn returns q for videos published from one time to another, inclusive.
func (q Query) PublishedIn(from, to time.Time) Query {
	params := q.Params()
	SetRange(params, "publishedAt", from, to)
	return Query{q.op, params.Encode()}
}

// OfScan returns q for the results of a scan (interface, Common filters, referenceId).
func (q Query) OfScan(id string) Query {
	params := q.Params()
	params.Set("referenceId", id)
	return Query{q.op, params.Encode()}
}

// Price returns the maximum price of one call of q.
func (q Query) Price(prices Prices) Credits { return prices.Of(q.op, q.Params().Get("mode")) }

// Request returns the call of a query without pages, such as the start of a scan.
func (q Query) Request(prices Prices) (*Request, error) {
	params, err := url.ParseQuery(q.params)
	if err != nil {
		return nil, fmt.Errorf("read the parameters %q: %w", q.params, err)
	}
	return NewRequest(q.op, params, prices)
}

// Page returns the call for the page that begins at from. A query without pages has all results in one.
func (q Query) Page(from int, prices Prices) (*Request, error) {
	if !q.op.isPaged() {
		return q.Request(prices)
	}
	page := url.Values{"from": {strconv.Itoa(from)}, "size": {strconv.Itoa(MaxSize)}}
	return Query{q.op, q.params + "&" + page.Encode()}.Request(prices)
}
