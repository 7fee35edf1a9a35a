// Package pace decides when the next request may be sent, so that the whole quota of the key is used and the
// service refuses nothing.
//
// # The window
//
// The service allows a number of requests per window. It documents neither the number nor the kind of window
// (interface, Rate limits). The limiter starts with a configured [Quota] and remembers when each of its
// requests was sent. A request holds a slot from the moment it is granted until one window after it was sent,
// plus a margin for unequal latencies. So no period of one window contains more requests than the quota,
// wherever the service's windows begin. This satisfies windows aligned to the clock, windows from the first
// hit, sliding windows and token buckets. Requests are not spread: after a pause the whole window may be used
// at once.
//
// One rule describes all these limits: at most n requests in any period of length w. A token bucket of burst
// b that gains one request each t is b in b·t; GCRA is the same; strict spacing is 1 in t. To learn a service
// is to learn n and w.
//
// # What is learned from answers
//
// Every answer is read: the 429 body, RateLimit and RateLimit-Policy in all drafts, RateLimit-*, X-RateLimit-*
// and their variants, Retry-After. Absolute times are interpreted relative to the Date of the same answer, so
// no clock has to be right.
//
//   - A limit below the believed one is believed at once. It is assumed to have the same pace
//     and a smaller burst, until times to a reset show that the window is longer.
//   - A limit above it is believed once three answers have counted our requests. A header
//     that never counts proves nothing. If a request is refused although the last answer
//     allowed two more, no higher limit is believed for a week.
//   - Resets show the kind of window. A reset that stays where it is and then jumps by
//     the window's length belongs to a fixed window. One that grows with what is used
//     belongs to a bucket. If the count does not start afresh after a reset, the service
//     only estimates a sliding window.
//   - For a bucket, the time to the reset and the number used together give the time in
//     which it gains one request, even where the stated window describes the burst alone.
//
// # Refusals
//
// After a refusal no request is sent until the later of Retry-After and resetTime, if they are plausible.
// Otherwise the wait is the time that one request takes at this pace, doubled with every further refusal up to
// 5 minutes.
//
// The times of our own requests show the smallest burst that was exceeded. The pace stays, the burst shrinks to
// what was admitted, and a full window is tried again after 6 hours, then 12 and so on. If even a burst of one
// was not exceeded, the pace is too fast: the windows are stretched to what the service admitted between two
// refusals. A faster pace is tried after an hour, halfway to the one that was refused, and withdrawn if it is
// refused as well. If the service counted more than we sent, other clients caused the refusal, and nothing is
// learned. A wrong conclusion costs little, because a burst of one at the same pace is as fast as any.
//
// # Other clients on the key
//
// Requests that the service counts beyond ours were sent by other clients. They take slots like ours. When more
// of them come, our requests are spaced evenly, so that each client sees all requests of the others. If they
// continue, or a request is refused meanwhile, some slots are left to them. Each refusal takes one slot from us.
// We take one more when the service had some left for a while; this period is long, varies, and doubles after
// refusals. A limiter with a configured share ignores other clients until a refusal, because they have a share
// of their own.
//
// # Order
//
// Waiting calls are ordered by class: a person's own, paid ones, scan polls, all others. [Limiter.ETA] estimates
// when a number of calls will have been sent, and [Limiter.Slot] when one of a kind could be sent.
//
// # Restarts
//
// A window survives the process. The state is written to a file before a request may be sent, so that a process
// that is killed and started again knows what was sent. One write per request is right for 10 a minute and too
// many for 100,000. So one write covers a hundredth of the quota in advance; a kill wastes at most that
// hundredth, for one window. Times are stored with a resolution of a thousandth of the window. The date of a
// file that cannot be read still shows that no request was sent after it.
//
// # golang.org/x/time/rate
//
// It cannot represent the window: a bucket that fills evenly admits up to twice the quota in one window of the
// service, and cannot be given a history. docs/pace.md measures both. It is not used for even spacing and for
// the polls' share either, which are buckets of one. There the time of the last request is the whole state,
// which must be in the file anyway. A [rate.Limiter] does not expose its state and would have to be created
// again from that time for every decision, because learning changes the pace.
//
// [rate.Limiter]: https://pkg.go.dev/golang.org/x/time/rate#Limiter
package pace
