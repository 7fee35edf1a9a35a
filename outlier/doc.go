// Package outlier speaks to the outlier search and video data service, one to one
// with its interface specification, whose sections the comments name. The file
// openapi.yaml says the same to programs; tests hold every request against it.
//
// # Resources
//
// An [Operation] is one endpoint. Searching costs credits and finds hits: outliers
// ([OpSearch], [OpRelated]), channels ([OpFindChannels], [OpFindRelatedChannels]) or formats
// ([OpTrendingFormats]). Starting a scan ([OpStartScan]) costs many; its record is free.
// The data endpoints (videos and shorts of a channel; details, comments and
// transcript of a video) are free with a subscription. All share one rate limit.
//
//	NewQuery ──> Query.Page ─┐
//	             DataRequest ┴─> Request ──> Client.Do ──> Answer ──> PageOf, ReadScan, Empty; package schema
//
// A [Query] is what is wanted: an operation and its parameters. Jobs, plans and the record
// of a run hold it. A [Request] is one call: of a query, or about an id. It exists only if
// it obeys the interface, and never changes. [NewRequest] checks parameters, in the form in
// which they are sent and stored, against the one table of them ([Operation.Params]) before
// anything is spent. It refuses what the operation does not have, since a misspelled filter
// would be paid for and not applied.
//
// An [Answer] keeps the body as it came over the wire, because it was paid for. This package
// reads from it only what steers the program: a [Page] with its hits, the state of a [Scan],
// whether there is nothing at all ([Empty]), and what went wrong ([Error]). No structs mirror
// the answers; package schema is the full decoder.
//
// What an answer costs is a matter of [Prices], which are given when a request is made.
// The price of a scan depends on its mode, which is therefore always sent, even where
// it is the service's default.
//
// # One call
//
// [Client.Do] is the only place that spends. It makes one attempt and never a
// second, which matters most for a scan: a repeated POST starts and charges another.
//
//  1. [Pacer.Wait]: the request may leave as far as the rate limit goes.
//  2. [Meter.Reserve]: its price is set aside, or the budget refuses.
//  3. A connection is made, for this attempt alone if it is paid. A free one may have the
//     connection of the one before, in a form that Go cannot send twice; see [Transport].
//  4. [Attempt.Sending]: durably marked as sent, before the first byte. If the
//     marking fails, the connection is closed, and nothing was sent.
//  5. The whole answer is read, within limits of size and time. Redirects are not
//     followed, as they would carry the key along.
//  6. [Pacer.Observe], then [Attempt.Settle] with the answer and its [Outcome].
//
// A failed request is refunded (interface, Errors, rule 3), but a lost answer proves
// nothing. So there are three outcomes:
//
//	Refunded   provably not sent, or refused by the service in one of its shapes
//	Charged    a whole answer, even if it makes no sense
//	Unknown    all else: time-outs, resets, cut bodies, redirects, gateways' pages;
//	           it counts as charged, and what did arrive is kept
//
// The service has refused if the status is 429, or if the error of a whole JSON object
// is itself an object with a message, errors or a rateLimit (interface, Errors), and
//
//	any 4xx, any 5xx    the field status is there, too: gateways write the rest as well
//	any 4xx             with a rateLimit, which is known to come without a status
//	2xx                 as the first, with nothing of an answer beside it
//	3xx                 never
//
// A stop, the end of Do's context, prevents what was not sent. What was sent gets
// [StopGrace] to finish.
//
// # What the interface leaves open
//
// Each guess of ours lives in one place:
//
//	how arrays are encoded               [Client].Arrays, encode.go: the key is repeated
//	parameters of the channel searches   params: those of services of this shape
//	parameters of trending formats       checkOpen: as they are written
//	a related search without any seed    checkParams: refused
//	form of date-times                   Instant: UTC, whole seconds, Z
//	what from counts                     the caller of [Query.Page] knows
//	form of ids in parameters            checkChannelID, checkVideoID: as of ids elsewhere
//	ranges the wrong way round           checkRange: refused, they can only be empty
//	HTTP statuses of the error shapes    Error.kind: clear statuses first, then shapes
//	what proves a refusal                readError: the shape; the field status where gateways speak
//	whose answer it is                   marks, readError: known by its form
//	a shape of failure with status 200   judgeSuccess: unknown
//	form of resetTime                    readInstant: date-time or number
//	null, absent and oddly typed fields  tolerant.go: count as absent
//	which estimate revenue sorts by      Hit.SortValue: the middle
//	answers that mean "none"             Empty
//	whether an answer was cached (free)  never assumed: [Prices.Of] is an upper bound
//	which statuses end a scan            Scan.Ended: three known ones, or a time of its end
//	a threshold that is a plain number   Scan: counts as outliers
package outlier
