package pace

import (
	"math"
	"math/rand/v2"
	"time"

	"outlierd/outlier"
)

// A scenario is a service, clients that always have a call waiting, and the network between
// them. It runs in virtual time, one event after the other.
type scenario struct {
	service  service
	style    style
	clients  []client      // independent of each other
	shares   []float64     // of the quota, by client; 1 if a client wants all of it
	jobs     int           // maximum number of calls in flight of each client
	restarts time.Duration // the interval at which the clients are restarted; 0 for never
	skew     time.Duration // how far the service's clock is ahead
	random   *rand.Rand
}

const (
	day        = 24 * time.Hour
	jitter     = 120 * time.Millisecond // of each way
	minLatency = 200 * time.Millisecond // after the service has counted the call
	maxLatency = 2 * time.Second
)

// A result is the outcome of a scenario.
type result struct {
	use      float64 // relative to a client that knows the service's state
	refused  int
	hourly   int           // refusals in the worst hour, apart from the first hour
	waited   time.Duration // total of the first ten requests
	again    time.Duration // how long the tenth request waits after an hour's pause at the end
	admitted []int         // by client
}

// A transit is one call in flight: to the service, or back with an answer.
type transit struct {
	client int
	at     time.Time // of arrival
	sent   time.Time
	lost   bool            // the process that sent it was restarted
	answer *outlier.Answer // nil on the way to the service
}

var simulationStart = time.Date(2026, 3, 28, 23, 59, 13, 417_000_000, time.UTC)

// run simulates the scenario for the given time.
func (s *scenario) run(span time.Duration) (r result) {
	var inFlight []transit
	now, end := simulationStart, simulationStart.Add(span)
	killed := simulationStart.Add(s.restarts)
	idle := make([]int, len(s.clients))        // number of calls that wait to be sent
	ready := make([]time.Time, len(s.clients)) // since when one waits
	for i := range idle {
		idle[i], ready[i] = s.jobs, simulationStart
	}
	r.admitted = make([]int, len(s.clients))
	sent := 0
	hours := map[int]int{} // refusals by hour
	for {
		next, who := s.next(now, idle, end)
		what := -1
		for i, e := range inFlight {
			if e.at.Before(next) {
				next, what = e.at, i
			}
		}
		if s.restarts > 0 && killed.Before(next) {
			now, killed = killed, killed.Add(s.restarts)
			for i := range inFlight {
				inFlight[i].lost = true
			}
			for i, c := range s.clients {
				c.restart(now)
				idle[i] = s.jobs
			}
			continue
		}
		if !next.Before(end) {
			break
		}
		now = next
		if what < 0 {
			s.clients[who].left(now)
			idle[who]--
			if sent++; sent <= 10 {
				r.waited += now.Sub(ready[who])
			}
			inFlight = append(inFlight, transit{client: who, at: now.Add(s.between(0, jitter)), sent: now})
			continue
		}
		e := &inFlight[what]
		if e.answer == nil {
			if refused := r.refused; s.arrive(e, &r) != refused {
				hours[int(now.Sub(simulationStart)/time.Hour)]++
			}
			continue
		}
		if !e.lost {
			s.clients[e.client].answered(now, e.sent, e.answer)
			if idle[e.client]++; idle[e.client] == 1 {
				ready[e.client] = now
			}
		}
		inFlight[what] = inFlight[len(inFlight)-1]
		inFlight = inFlight[:len(inFlight)-1]
	}
	r.use, r.again = s.use(r.admitted, span), s.again(end)
	delete(hours, 0)
	for _, n := range hours {
		r.hourly = max(r.hourly, n)
	}
	return r
}

// use returns the utilisation: the admitted requests, relative to those of an ideal client. If clients
// have shares, it is that of the client that uses the smallest part of its share.
func (s *scenario) use(admitted []int, span time.Duration) float64 {
	least, sum := math.Inf(1), 0
	for i, n := range admitted {
		sum += n
		least = min(least, float64(n)/s.shares[i])
	}
	if s.shares[0] == 1 {
		least = float64(sum)
	}
	return least / s.service.most(span)
}

// again returns how long the tenth request of a client waits after an hour without requests.
func (s *scenario) again(end time.Time) (wait time.Duration) {
	for _, c := range s.clients {
		if l, ok := c.(*ourLimiter); ok {
			now := end.Add(time.Hour)
			l.inFlight = 0 // everything in flight has completed long ago
			l.dropExpired(now)
			wait = max(wait, l.nextSlot(now, 10).Sub(now))
		}
	}
	return wait
}

// next returns when the next waiting call may be sent, and its client.
func (s *scenario) next(now time.Time, idle []int, end time.Time) (next time.Time, who int) {
	next = end
	for i, c := range s.clients {
		if idle[i] == 0 {
			continue
		}
		if t := c.next(now); t.Before(next) {
			next, who = t, i
		}
	}
	return next, who
}

// arrive lets the service count and answer a request, and returns the refusals so far.
func (s *scenario) arrive(e *transit, r *result) (refused int) {
	v := s.service.ask(e.at.Sub(simulationStart))
	if v.ok {
		r.admitted[e.client]++
	} else {
		r.refused++
	}
	answered := e.at.Add(s.between(minLatency, maxLatency))
	e.answer = answer(s.style, v, e.at.Add(s.skew), answered.Add(s.skew))
	e.at = answered.Add(s.between(0, jitter))
	return r.refused
}

func (s *scenario) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.random.Int64N(int64(to-from)))
}
