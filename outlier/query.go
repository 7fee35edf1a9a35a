package outlier

import (
	"fmt"
	"net/url"
	"strconv"
	"time"
)

// A Query is what a search, trending formats or the start of a scan asks for: an operation
// and its parameters, but from and size, which belong to one page. It is a value: two
// queries ask for the same exactly when they are equal. The zero Query asks for nothing.
type Query struct {
	op     Operation
	params string // canonical: sorted by name, lists in the order given
}

// NewQuery makes a query from parameters as they are sent, and checks them as [NewRequest]
// does.
func NewQuery(op Operation, params url.Values) (Query, error) {
	r, err := NewRequest(op, params, nil)
	if err != nil {
		return Query{}, err
	}
	return Query{op, r.params.Encode()}, nil
}

// UncheckedQuery makes a query from what [Query.Encode] wrote: one on record, which may
// be older than a rule of today, or one whose values are not all known yet. No call is
// made of it unchecked: [Query.Request] and [Query.Page] check it.
func UncheckedQuery(op Operation, params string) Query { return Query{op, params} }

// Op is the operation that q asks for.
func (q Query) Op() Operation { return q.op }

// Encode is the canonical text of the parameters, as it is kept on record.
func (q Query) Encode() string { return q.params }

// Params are the parameters as they are sent. They are the caller's to change. What is not
// a list of parameters is left out; making a request reports it.
func (q Query) Params() url.Values {
	params, _ := url.ParseQuery(q.params)
	return params
}

// Published are the ends of publishedAt; zero where one is not given.
func (q Query) Published() (from, to time.Time) {
	params := q.Params()
	from, _ = time.Parse(time.RFC3339, params.Get("publishedAtFrom"))
	to, _ = time.Parse(time.RFC3339, params.Get("publishedAtTo"))
	return from, to
}

// PublishedIn is q for what was published from one time to another, both included.
func (q Query) PublishedIn(from, to time.Time) Query {
	params := q.Params()
	SetRange(params, "publishedAt", from, to)
	return Query{q.op, params.Encode()}
}

// OfScan is q for the results of a scan (interface, Common filters, referenceId).
func (q Query) OfScan(id string) Query {
	params := q.Params()
	params.Set("referenceId", id)
	return Query{q.op, params.Encode()}
}

// Price is what one call of q costs at most.
func (q Query) Price(prices Prices) Credits { return prices.Of(q.op, q.Params().Get("mode")) }

// Request is the call of a query that has no pages, such as the start of a scan.
func (q Query) Request(prices Prices) (*Request, error) {
	params, err := url.ParseQuery(q.params)
	if err != nil {
		return nil, fmt.Errorf("read the parameters %q: %w", q.params, err)
	}
	return NewRequest(q.op, params, prices)
}

// Page is the call for the whole page that begins at from. A query that has no pages has
// all its results in one.
func (q Query) Page(from int, prices Prices) (*Request, error) {
	if !q.op.paged() {
		return q.Request(prices)
	}
	page := url.Values{"from": {strconv.Itoa(from)}, "size": {strconv.Itoa(MaxSize)}}
	return Query{q.op, q.params + "&" + page.Encode()}.Request(prices)
}
