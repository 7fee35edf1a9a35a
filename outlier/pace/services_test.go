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

// resets is when the reset is, by the service's clock.
func (v verdict) resets(clock time.Time) time.Time {
	if v.never {
		return endOfTime
	}
	return clock.Add(v.reset)
}

// toReset is how many whole seconds it is to the reset. No length of package time
// reaches the year 9999.
func (v verdict) toReset(clock time.Time) int64 {
	if v.never {
		return endOfTime.Unix() - clock.Unix()
	}
	return ceilSeconds(v.reset)
}

// A service is one kind of limit, asked as each request arrives. Times count from
// the beginning of the simulation.
type service interface {
	ask(now time.Duration) verdict

	// most is how many requests it would admit from the beginning to the given end
	// to a client that knows its state and has no latency.
	most(end time.Duration) float64
}

// onClock has windows that follow each other from its phase on.
type onClock struct {
	Quota
	phase time.Duration // of the first window that had begun when the simulation did
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

// fixed is the verdict of a window of which so many are used.
func (q Quota) fixed(used int, left time.Duration) verdict {
	return verdict{
		ok: used <= q.Requests, limit: q.Requests, remaining: max(0, q.Requests-used), current: used,
		window: q.Window, reset: left, retry: left,
	}
}

// fromHit has a window that begins with the first request after the last one.
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

// slidingLog counts what it admitted in the window before each request.
type slidingLog struct {
	Quota
	vague bool // its reset is always a whole window away
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

// refilling is a token bucket, or GCRA, which is the same: a burst, and one more request in
// each interval. Its reset is when it is full again.
type refilling struct {
	burst int
	each  time.Duration
	lack  time.Duration // how long until it is full
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

// approximate estimates a sliding window from the counts of two fixed ones.
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

// most: after a window with any request, ten in the next would need the last of them at its
// very end. Nine a window are possible for long.
func (s *approximate) most(end time.Duration) float64 {
	return 1 + float64(s.Requests-1)*float64(int64((end+s.phase)/s.Window)+1)
}

// lying enforces a limit and states another.
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

// windowed states another window than the one of its pace.
type windowed struct {
	service
	window time.Duration
}

func (s *windowed) ask(now time.Duration) verdict {
	v := s.service.ask(now)
	v.window = s.window
	return v
}

// some is a random time in the first window.
func some(random *rand.Rand, q Quota) time.Duration {
	return time.Duration(random.Int64N(int64(q.Window)))
}
