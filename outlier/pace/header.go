package pace

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Headers without a common standard have a prefix, a subject and sometimes a unit or a window:
// X-RateLimit-Limit-Minute. They are written in the canonical form of [http.Header], the plainest first.
var (
	prefixes = []string{"Ratelimit-", "X-Ratelimit-", "X-Rate-Limit-", "Rate-Limit-"}
	suffixes = []string{"", "-Requests", "-Minute", "-Second", "-Hour", "-Day"}
	windows  = map[string]time.Duration{
		"-Second": time.Second, "-Minute": time.Minute, "-Hour": time.Hour, "-Day": 24 * time.Hour,
	}
)

// readFamilies reads the first family of headers that states a limit or the remaining requests. A service that sends
// several families uses them to describe one limit.
func (r *reading) readFamilies(h http.Header, date time.Time) {
	for _, prefix := range prefixes {
		for _, suffix := range suffixes {
			get := func(subject string) string { return strings.Join(h[prefix+subject+suffix], ",") }
			limit, remaining := parseCount(get("Limit")), parseCount(get("Remaining"))
			if limit < 0 && remaining < 0 {
				continue
			}
			r.limit, r.remaining, r.reset = limit, remaining, parseUntil(get("Reset"), date)
			// The drafts up to the sixth have the window in the limit or in a policy: 10, 10;w=60.
			for _, p := range readPolicies(h[prefix+"Limit"], h["Ratelimit-Policy"], h["X-Ratelimit-Policy"]) {
				if p.limit == limit {
					r.window = cmp.Or(r.window, p.window)
				}
			}
			r.window = cmp.Or(windows[suffix], r.window)
			return
		}
	}
}

// readStructured reads RateLimit and RateLimit-Policy, in the form of the drafts from the eighth on ("name";r=9;t=51)
// and of the seventh (limit=10, remaining=9, reset=51). It takes the policy whose window is nearest to the given one.
// It returns false if there is no readable RateLimit header.
func (r *reading) readStructured(h http.Header, window time.Duration) bool {
	all := readStates(h["Ratelimit"], readPolicies(h["Ratelimit-Policy"]))
	if len(all) == 0 {
		return false
	}
	slices.SortStableFunc(all, func(a, b policy) int {
		return cmp.Compare((a.window - window).Abs(), (b.window - window).Abs())
	})
	for _, p := range all[1:] {
		if p.remaining == 0 {
			r.spent = max(r.spent, p.reset)
		}
	}
	r.policy = all[0]
	return true
}

// readPolicies reads lists of policies, "name";q=10;w=60 or 10;w=60. It skips those that limit something other than
// requests, and those whose window is not plausible.
func readPolicies(lists ...[]string) (all []policy) {
	for _, list := range lists {
		for _, m := range splitMembers(list) {
			p := noPolicy
			p.name, p.limit = m[""], parseCount(cmp.Or(m["q"], m[""]))
			if w, ok := m["w"]; ok {
				p.window = parseSeconds(w)
			}
			if unit := cmp.Or(m["qu"], "requests"); p.limit > 0 && p.window >= 0 && unit == "requests" {
				all = append(all, p)
			}
		}
	}
	return all
}

// readStates reads a RateLimit header and completes each limit from the known policies.
func readStates(list []string, known []policy) (all []policy) {
	seventh := map[string]string{}
	add := func(m map[string]string, remaining, reset string, is func(policy) bool) {
		p := noPolicy
		p.limit = parseCount(m["limit"])
		for _, k := range known {
			if is(k) {
				p = k
			}
		}
		p.name, p.remaining, p.reset = "", parseCount(m[remaining]), parseSeconds(m[reset])
		if p.remaining >= 0 {
			all = append(all, p)
		}
	}
	for _, m := range splitMembers(list) {
		if _, ok := m["r"]; ok {
			add(m, "r", "t", func(k policy) bool { return k.name == m[""] || len(known) == 1 })
		}
		maps.Copy(seventh, m)
	}
	add(seventh, "remaining", "reset", func(k policy) bool { return k.limit == parseCount(seventh["limit"]) })
	return all
}

// splitMembers returns the members of a structured list, "name";q=10;w=60, 10;w=60 or limit=10, each as its parameters.
// The parameter "" is the member's name. Separators within quotes are not expected.
func splitMembers(list []string) (all []map[string]string) {
	for member := range strings.SplitSeq(strings.Join(list, ","), ",") {
		m := map[string]string{}
		for part := range strings.SplitSeq(member, ";") {
			name, value, found := strings.Cut(part, "=")
			if !found {
				name, value = "", name
			}
			if name = strings.ToLower(strings.TrimSpace(name)); m[name] == "" {
				m[name] = strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
		all = append(all, m)
	}
	return all
}

// parseSeconds parses a whole number of seconds. It returns -1 if it is missing or not plausible.
func parseSeconds(text string) time.Duration {
	return plausibleWait(time.Duration(parseCount(text)) * time.Second)
}
