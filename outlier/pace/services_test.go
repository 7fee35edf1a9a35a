package pace

import (
	"math"
	"math/rand/v2"
	"time"
)

// A verdict is what a service decides about one request, and the state of its limit.
type verdict struct {
	ok        bool
	limit     int
	remaining int
	current   int
	window    time.Duration
	reset     time.Duration // from now
	retry     time.Duration // from now until a request would be admitted
	never     bool          // reset and retry are stated as the end of the year 9999
}

var endOfTime = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// resets returns the time of the reset, by the service's clock.
func (v verdict) resets(clock time.Time) time.Time {
	if v.never {
		return endOfTime
	}
	return clock.Add(v.reset)
}

// toReset returns the whole seconds until the reset. A time.Duration cannot reach the year 9999.
func (v verdict) toReset(clock time.Time) int64 {
	if v.never {
		return endOfTime.Unix() - clock.Unix()
	}
	return ceilSeconds(v.reset)
}

// A service enforces one kind of limit. Times are since the start of the simulation.
type service interface {
	// ask counts a request that arrives now.
	ask(now time.Duration) verdict

	// most returns how many requests it would admit until end from a client that knows its state
	// and has no latency.
	most(end time.Duration) float64
}

// onClock has consecutive windows.
type onClock struct {
	Quota
	phase time.Duration // age of the first window when the simulation starts
	index int64
	used  int
}

func (s *onClock) ask(now time.Duration) verdict {
	at := now + s.phase
	if i := int64(at/s.Window) + 1; i != s.index {
		s.index, s.used = i, 0
	}
	s.used++
	left := s.Window - at%s.Window
	return s.fixed(s.used, left)
}

func (s *onClock) most(end time.Duration) float64 {
	return float64(s.Requests) * float64(int64((end+s.phase)/s.Window)+1)
}

// fixed returns the verdict on the last of the used requests in a window that ends in left.
func (q Quota) fixed(used int, left time.Duration) verdict {
	return verdict{
		ok: used <= q.Requests, limit: q.Requests, remaining: max(0, q.Requests-used), current: used,
		window: q.Window, reset: left, retry: left,
	}
}

// fromHit has windows that start with the first request after the previous window.
type fromHit struct {
	Quota
	ends time.Duration
	used int
}

func (s *fromHit) ask(now time.Duration) verdict {
	if now >= s.ends {
		s.ends, s.used = now+s.Window, 0
	}
	s.used++
	return s.fixed(s.used, s.ends-now)
}

func (s *fromHit) most(end time.Duration) float64 {
	return float64(s.Requests) * math.Ceil(float64(end)/float64(s.Window))
}

// slidingLog counts the requests that it admitted in the window before each request.
type slidingLog struct {
	Quota
	vague bool // it always states a reset in a whole window
	seen  []time.Duration
}

func (s *slidingLog) ask(now time.Duration) verdict {
	for len(s.seen) > 0 && now-s.seen[0] >= s.Window {
		s.seen = s.seen[1:]
	}
	ok := len(s.seen) < s.Requests
	if ok {
		s.seen = append(s.seen, now)
	}
	v := s.fixed(len(s.seen), s.seen[0]+s.Window-now)
	if v.ok = ok; !ok {
		v.current++
	}
	if s.vague {
		v.reset = s.Window
	}
	return v
}

func (s *slidingLog) most(end time.Duration) float64 {
	return float64(s.Requests) * math.Ceil(float64(end)/float64(s.Window))
}

// refilling is a token bucket, or the equivalent GCRA: it admits a burst, and one more request in each
// interval. Its reset is when the bucket is full.
type refilling struct {
	burst int
	each  time.Duration
	lack  time.Duration // until the bucket is full
	last  time.Duration
}

func (s *refilling) ask(now time.Duration) verdict {
	s.lack = max(0, s.lack-(now-s.last))
	s.last = now
	whole := time.Duration(s.burst) * s.each
	v := verdict{ok: s.lack+s.each <= whole, limit: s.burst, window: whole}
	if v.ok {
		s.lack += s.each
	} else {
		v.retry = s.lack + s.each - whole
	}
	v.remaining, v.reset = int((whole-s.lack)/s.each), s.lack
	v.current = s.burst - v.remaining
	if !v.ok {
		v.current = s.burst + 1
	}
	return v
}

func (s *refilling) most(end time.Duration) float64 {
	return float64(s.burst) + math.Floor(float64(end)/float64(s.each))
}

// approximate estimates a sliding window from the counts of two fixed windows.
type approximate struct {
	Quota
	phase      time.Duration
	index      int64
	prior, now int
}

func (s *approximate) ask(now time.Duration) verdict {
	at := now + s.phase
	switch i := int64(at/s.Window) + 1; {
	case i == s.index+1:
		s.index, s.prior, s.now = i, s.now, 0
	case i != s.index:
		s.index, s.prior, s.now = i, 0, 0
	}
	into := float64(at%s.Window) / float64(s.Window)
	estimate := float64(s.prior)*(1-into) + float64(s.now) + 1
	ok := estimate <= float64(s.Requests)
	if ok {
		s.now++
	}
	v := s.fixed(int(math.Ceil(estimate)), s.Window-at%s.Window)
	v.ok = ok
	return v
}

// most is one request less in each window after the first: the estimate reaches the limit otherwise, except
// at the very end of a window.
func (s *approximate) most(end time.Duration) float64 {
	return 1 + float64(s.Requests-1)*float64(int64((end+s.phase)/s.Window)+1)
}

// lying enforces a limit and states another one.
type lying struct {
	service
	lie int
}

const lieKinds = 4

func (s *lying) ask(now time.Duration) verdict {
	v := s.service.ask(now)
	switch s.lie % lieKinds {
	case 0:
		v.remaining = 9999
	case 1:
		v.limit, v.remaining = 10_000, 9999
	case 2:
		v.reset, v.retry = -time.Hour, -time.Hour
	case 3:
		v.never = true
	}
	return v
}

// windowed states another window than the one that it enforces.
type windowed struct {
	service
	window time.Duration
}

func (s *windowed) ask(now time.Duration) verdict {
	v := s.service.ask(now)
	v.window = s.window
	return v
}

// randomPhase returns a random time in a window.
func randomPhase(random *rand.Rand, q Quota) time.Duration {
	return time.Duration(random.Int64N(int64(q.Window)))
}
