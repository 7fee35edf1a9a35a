// Package pace decides when the next request may leave, so that all of the key's
// quota is used and the service refuses nothing.
//
// # The window
//
// The service allows so many requests per window and shows neither the number
// nor the kind of window (interface, Rate limits). The limiter believes a
// configured [Quota] and remembers when each of its requests was sent. A slot is
// taken from the moment a request is let go until one window, and a margin for the
// unequal ways to the service, after it was sent. Then no stretch of one window holds
// more requests than the quota at the service, wherever its windows begin: windows
// on the clock or from the first hit, sliding ones and token buckets are all
// content. Nothing is spread: after a pause the whole window may be used at once.
//
// One form of rule describes them all: at most n requests in any stretch of so
// long. A token bucket of burst b that gains one in each t is b in b·t; GCRA is the
// same; strict spacing is 1 in t. To learn a service is to learn these two numbers.
//
// # What answers teach
//
// Every answer is read: the 429 body, RateLimit and RateLimit-Policy in all drafts,
// RateLimit-*, X-RateLimit-* and their variants, Retry-After. Absolute times are read
// against the Date of the same answer, so that no clock need be right.
//
//   - A limit below the belief is believed at once, as the same pace with a
//     smaller burst, until times to a reset show that the window is longer.
//   - A limit above the belief is believed once three answers have counted our
//     requests. A header that never counts proves nothing. If a request is then
//     refused although two were promised, nothing above the belief is believed
//     for a week.
//   - Resets show how windows turn: one that stays where it is belongs to a fixed
//     window, and jumps by its length; one that grows with what is used to a bucket; if
//     what was used is not forgotten at a reset, the service only estimates.
//   - Of a bucket, how far away its reset is and how much is used tell together what it
//     gains, even where the window that it tells goes with the burst alone.
//
// # Refusals
//
// Nothing leaves until the later of Retry-After and resetTime where they can be
// believed, else for the time that one request is worth, doubling with every further
// refusal to 5 minutes. The times of our own requests show which burst was exceeded
// at the least: the pace stays, the burst shrinks to what was admitted, and is tried
// again after 6 hours, then 12 and so on. Where even a burst of one would have been kept,
// the windows are stretched until the pace is what the service let through from one refusal
// to the next; a faster one is tried after an hour, halfway to the one that was refused, and
// taken back when it is refused. Where the service counted
// more than we sent, it was others, and nothing is learned. What a mistake costs is
// therefore small: a burst of one at the same pace is as fast as any.
//
// # Others on the key
//
// What the service counts beyond our own requests is somebody else's. Once seen,
// such requests take slots like ours. When they come again, requests are spaced evenly,
// as only then do both sides see all of each other; if they stay, or anything is refused
// then, a number of slots is left to them. A refusal lessens ours by one. One more is taken when the service had some
// left for a while, which is long, differs from time to time and doubles after refusals.
// Who was given a share does nothing about others before a refusal: they have theirs.
//
// # Order
//
// Waiting calls go by class: a person's own, paid ones, scan polls, all others.
// [Limiter.ETA] tells when a number of calls will have left, [Limiter.Slot] when one
// of a kind could.
//
// # Restarts
//
// A window outlives the process. The memory is written to a file before a request may
// leave, so that a process that was killed and started again knows what went out.
// One file per request is right for 10 a minute and absurd for 100,000: a save
// therefore pays for a hundredth of the quota in advance, and the requests that it
// covers need no save of their own. Of these a kill wastes at most that hundredth, for
// one window. The log itself is coarse to a thousandth of the window. A file that cannot
// be read still tells by its date that nothing left later.
//
// golang.org/x/time/rate is not used: a bucket that fills evenly lets up to twice
// the quota into one window of the service, and cannot be told what happened before
// it was made. docs/pace.md measures both.
package pace
