package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Retention says which answers of the journal keep their bodies. The zero value keeps all.
type Retention struct {
	Age   time.Duration // answers younger than this
	Bytes int64         // the newest answers with at most this size together
}

// Any reports whether anything is ever pruned.
func (r Retention) Any() bool { return r != Retention{} }

// String returns the value of retention.journal.
func (r Retention) String() string {
	switch {
	case r.Age > 0:
		return Duration(r.Age).String()
	case r.Bytes > 0:
		for _, u := range []string{"TB", "GB", "MB"} {
			if r.Bytes%sizes[u] == 0 {
				return strconv.FormatInt(r.Bytes/sizes[u], 10) + u
			}
		}
	}
	return "for ever"
}

// leastKept is how long every answer keeps its body at least, because an unfinished run may be resumed
// for that long.
const leastKept = day

// Least returns how long every answer keeps its body at least, whatever the retention: a day, or as long
// as a job may reuse it.
func (c *Config) Least() time.Duration {
	least := time.Duration(leastKept)
	for i := range c.Jobs {
		least = max(least, c.Jobs[i].ReuseFor)
	}
	return least
}

// sizes are the units of sizes, in bytes.
var sizes = map[string]int64{"MB": 1e6, "GB": 1e9, "TB": 1e12}

func parseRetention(text string) (r Retention, err error) {
	if _, isSize := sizes[text[max(0, len(text)-2):]]; isSize {
		r.Bytes, err = ParseSize(text)
		return r, err
	}
	age, err := ParseDuration(text)
	switch {
	case err != nil:
		return r, fmt.Errorf("%q is neither an age in days or weeks, such as 400d, nor a size, "+
			"such as 500MB, 20GB or 1TB", text)
	case time.Duration(age) < leastKept:
		return r, fmt.Errorf("%q is shorter than a day", text)
	}
	return Retention{Age: time.Duration(age)}, nil
}

// ParseSize parses a size of at least a megabyte, such as 500MB, and returns it in bytes.
func ParseSize(text string) (int64, error) {
	unit := text[max(0, len(text)-2):]
	n, err := strconv.ParseUint(strings.TrimSuffix(text, unit), 10, 31)
	size, ok := sizes[unit]
	if !ok || err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a size, such as 500MB, 20GB or 1TB", text)
	}
	if int64(n) > 1e15/size {
		return 0, fmt.Errorf("%q is larger than 1000TB", text)
	}
	return int64(n) * size, nil
}
