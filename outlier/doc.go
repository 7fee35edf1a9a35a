// Package outlier is the client of the outlier search and video data service. It follows the interface
// specification, whose sections the comments name. The file openapi.yaml specifies the same for programs;
// tests check every request against it.
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
// A [Query] is an operation and its parameters. Jobs, plans and the record of a run contain queries. A
// [Request] is one call: of a query, or about an id. Every Request is valid and never changes.
// [NewRequest] checks parameters, in the form in which they are sent and stored, against one table
// ([Operation.Params]) before anything is spent. It refuses parameters that the operation does not have:
// a misspelled filter would be charged for and not applied.
//
// An [Answer] keeps the body as received, because it was paid for. This package reads from it only what
// controls the program: a [Page] with its hits, the state of a [Scan], whether the service has no data
// ([Empty]), and what went wrong ([Error]). There are no structs for the answers; package schema is the
// full decoder.
//
// [Prices], which are passed when a request is made, determine what an answer costs. The price of a scan
// depends on its mode, so the mode is always sent, even if it is the service's default.
//
// # One call
//
// [Client.Do] is the only function that spends credits. It makes one attempt and never a second, which
// matters most for a scan: a repeated POST starts and charges another one.
//
//  1. [Pacer.Wait]: waits until the rate limit allows the request.
//  2. [Meter.Reserve]: reserves its price, unless the budget refuses.
//  3. A connection is made, for this attempt alone: see [NewTransport].
//  4. [Attempt.Sending]: marks the attempt durably as sent, before the first byte. If that fails, the
//     connection is closed, and nothing was sent.
//  5. The whole answer is read, within limits of size and time. Redirects are not followed, because the
//     request to the new address would contain the key.
//  6. [Pacer.Observe], then [Attempt.Settle] with the answer and its [Outcome].
//
// A failed request is refunded (interface, Errors, rule 3), but a lost answer proves
// nothing. So there are three outcomes:
//
//	Refunded   provably not sent, or refused by the service in a documented shape
//	Charged    a complete answer, even if it makes no sense
//	Unknown    everything else: time-outs, resets, incomplete bodies, redirects, pages of gateways;
//	           counts as charged, and the received part is kept
//
// The service has refused a request if the status is 429, or if the body is a complete JSON object whose
// error is an object with a message, errors or a rateLimit (interface, Errors), and depending on the status:
//
//	any 4xx, any 5xx    it has the field status as well: gateways send the other fields too
//	any 4xx             it has a rateLimit, which is known to occur without a status
//	2xx                 as the first, and the body has no data of an answer
//	3xx                 never
//
// If Do's context ends, a request that was not sent is never sent. One that was sent has [StopGrace] to
// finish.
//
// # What the interface leaves open
//
// Each assumption of ours is in one place:
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
