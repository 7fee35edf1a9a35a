package pace

import (
	"cmp"
	"math"
	"net/http"
	"strings"
	"time"
)

// Headers without a common standard have a prefix, a subject and sometimes a window. They
// are written in the canonical form of [http.Header].
var (
	prefixes = []string{"Ratelimit-", "X-Ratelimit-", "X-Rate-Limit-", "Rate-Limit-"}
	suffixes = []struct {
		text   string
		window time.Duration
	}{
		{"", 0}, {"-Requests", 0}, {"-Minute", time.Minute}, {"-Second", time.Second}, {"-Hour", time.Hour},
		{"-Day", 24 * time.Hour},
	}
	families = func() (all []family) {
		for _, p := range prefixes {
			for _, s := range suffixes {
				limit, remaining, reset := p+"Limit"+s.text, p+"Remaining"+s.text, p+"Reset"+s.text
				all = append(all, family{limit, remaining, reset, s.window})
			}
		}
		return all
	}()
)

// A family is the names of the headers that describe one limit.
type family struct {
	limit, remaining, reset string
	window                  time.Duration
}

// readFamilies reads the first family that states a limit or the remaining requests. A service
// that sends several families uses them to describe one limit: the plainest name comes first.
func (r *reading) readFamilies(h http.Header, date time.Time) {
	for _, f := range families {
		if len(h[f.limit]) == 0 && len(h[f.remaining]) == 0 {
			continue
		}
		limit, some := number(first(h, f.limit))
		remaining, left := number(first(h, f.remaining))
		if !some && !left {
			continue
		}
		if some {
			r.limit, r.window = limit, cmp.Or(f.window, policyWindow(h, f, limit))
		}
		if left {
			r.remaining = remaining
		}
		if d, ok := until(first(h, f.reset), date); ok {
			r.reset = d
		}
		return
	}
}

// policyWindow returns the window in RateLimit-Policy or in the limit itself, as in the drafts up
// to the sixth: "10, 10;w=60". It is 0 if neither states one.
func policyWindow(h http.Header, f family, limit int) time.Duration {
	for _, name := range []string{f.limit, "Ratelimit-Policy", "X-Ratelimit-Policy"} {
		for _, p := range policies(h[name]) {
			if p.limit == limit && p.window > 0 {
				return p.window
			}
		}
	}
	return 0
}

func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// A policy is one limit of RateLimit-Policy together with its state in RateLimit. A value that is
// not stated is negative, a window 0.
type policy struct {
	name      string
	limit     int
	window    time.Duration
	remaining int
	reset     time.Duration
}

// readStructured reads RateLimit and RateLimit-Policy, in the form of the drafts from the eighth
// on ("name";r=9;t=51) and of the seventh (limit=10, remaining=9, reset=51). It takes the policy
// whose window is nearest to the given one. It returns false if there is no readable RateLimit
// header.
func (r *reading) readStructured(h http.Header, window time.Duration) bool {
	if len(h["Ratelimit"]) == 0 {
		return false
	}
	known := policies(h["Ratelimit-Policy"])
	states := states(h["Ratelimit"], known)
	if len(states) == 0 {
		return false
	}
	best := 0
	for i, p := range states {
		if distance(p.window, window) < distance(states[best].window, window) {
			best = i
		}
	}
	for i, p := range states {
		if i != best && p.remaining == 0 && p.reset > 0 {
			r.spent = max(r.spent, p.reset)
		}
	}
	p := states[best]
	r.limit, r.remaining, r.window, r.reset = p.limit, p.remaining, p.window, p.reset
	return true
}

// distance returns how far apart two windows are, in orders of magnitude.
func distance(a, b time.Duration) float64 {
	if a <= 0 || b <= 0 {
		return 100
	}
	return math.Abs(math.Log(float64(a) / float64(b)))
}

// policies reads a list of policies, "name";q=10;w=60 or 10;w=60. It skips those that limit
// something other than requests, and those with a window of more than a day.
func policies(values []string) (all []policy) {
	for _, v := range values {
		for e := range elements(v) {
			p := policy{name: e.key, limit: e.number("q"), remaining: -1, reset: -1}
			if n, ok := number(e.key); ok && !e.quoted {
				p.name, p.limit = "", n
			}
			if w := e.number("w"); w > 0 {
				p.window = time.Duration(w) * time.Second
			}
			if p.limit > 0 && p.window <= farthest && e.of("requests") {
				all = append(all, p)
			}
		}
	}
	return all
}

// states reads the RateLimit header and completes each limit from the known policies.
func states(values []string, known []policy) (all []policy) {
	var seventh element
	for _, v := range values {
		for e := range elements(v) {
			if e.value != "" { // limit=10
				seventh.params = append(seventh.params, param{e.key, e.value})
				continue
			}
			p := state(e, known)
			p.remaining, p.reset = e.number("r"), e.seconds("t")
			if p.remaining >= 0 {
				all = append(all, p)
			}
		}
	}
	if n := seventh.number("limit"); n >= 0 {
		p := policy{limit: n, remaining: seventh.number("remaining"), reset: seventh.seconds("reset")}
		for _, k := range known {
			if k.limit == n {
				p.window = k.window
			}
		}
		all = append(all, p)
	}
	return all
}

// state finds the policy that e describes.
func state(e element, known []policy) policy {
	for _, k := range known {
		if k.name == e.key || len(known) == 1 {
			return k
		}
	}
	return policy{name: e.key, limit: e.number("limit")}
}

// of reports whether e limits the given unit. Without a unit, e limits requests.
func (e element) of(unit string) bool {
	qu := strings.Trim(e.get("qu"), `"`)
	return qu == "" || qu == unit
}
