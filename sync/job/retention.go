package job

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// leastKept is how long every answer keeps its body at least.
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

func parseRetention(text string) (time.Duration, error) {
	age, err := ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not an age in days or weeks, such as 400d", text)
	case age < leastKept:
		return 0, fmt.Errorf("%q is shorter than a day", text)
	}
	return age, nil
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
