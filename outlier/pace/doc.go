// Package pace decides when the next request may be sent, so that the whole quota of the key is used and the service
// refuses nothing.
//
// The service documents neither how many requests it allows nor in which kind of window (interface, Rate limits). Three
// parts decide:
//
//   - The window (core.go, log.go): at most n requests in any period of length w, which satisfies windows aligned to the
//     clock, windows from the first hit, sliding windows and token buckets. Requests are not spread: after a pause the
//     whole window may be used at once. A request holds a slot from the moment it is granted until one window after it
//     was sent, plus a margin for unequal latencies.
//   - What answers state (reading.go, header.go, stated.go): n, w, when to continue, and whether the service has
//     counted requests of other clients.
//   - An even pace (pacing.go), a [rate.Limiter] of one request each, in addition to the window. It begins with a refusal,
//     whatever its reason, or when other clients keep using the key, and adapts until refusals are rare.
//
// The state is written to a file before a request may be sent (file.go). docs/design/pace.md explains what is learned, and
// testdata/limiters.md has the measurements.
package pace
