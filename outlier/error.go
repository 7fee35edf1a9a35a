package outlier

import "time"

// Kind says what an [Error] means for whoever must react to it.
type Kind string

// The four shapes of the interface, Errors, told apart by body and status, and
// the ways in which there is no such answer.
const (
	Invalid      Kind = "invalid"      // validation shape: a parameter breaks a rule; Fields names it
	Unauthorized Kind = "unauthorized" // 401, 403: the key is refused
	NoCredits    Kind = "no_credits"   // 402: the account has too few credits
	NotFound     Kind = "not_found"    // 404 with an error body: no such thing
	Limited      Kind = "limited"      // rate-limit shape, or status 429
	Failed       Kind = "failed"       // any other documented error body
	Unsent       Kind = "unsent"       // provably not sent: DNS, dial, TLS, proxy
	Lost         Kind = "lost"         // sent, and no complete answer: time-out, reset, cut body
	Foreign      Kind = "foreign"      // an answer that is not the service's: a gateway's page, a redirect
	Malformed    Kind = "malformed"    // a complete 2xx answer that is not the JSON expected
)

// Error is every way in which a call can go wrong, in one type.
type Error struct {
	Kind    Kind
	Op      Operation
	Entity  string
	Status  int          // HTTP status, 0 if none arrived
	Message string       // the service's own words, or ours if it said nothing
	Fields  []FieldError // Invalid: the parameters at fault
	Rate    *Rate        // Limited: what the body tells of the limit, if anything
	Cause   error        // the transport's error, if there was one
}

// FieldError is one element of the validation shape.
type FieldError struct {
	Path    string // the parameter, its parts joined by "."
	Code    string
	Message string
}

// Rate is what an answer says about the rate limit. A field that the answer does
// not carry is negative, Reset then zero (the interface does not promise any).
type Rate struct {
	Limit     int
	Current   int // requests counted in the window; may exceed Limit
	Remaining int
	Reset     time.Time // when the window ends, by the service's clock
}
