package job

import (
	"testing"
	"time"
)

func TestRetentionIsAnAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1d": 24 * time.Hour, "400d": 400 * 24 * time.Hour, "8w": 56 * 24 * time.Hour, "36h": 36 * time.Hour,
	} {
		c := parse(t, head+"retention: {journal: "+text+"}\njobs: {a: {search: {query: tea}}}\n")
		if c.Retention != want || len(c.Warnings) > 0 {
			t.Errorf("%s is %s with %v, want %s", text, c.Retention, c.Warnings, want)
		}
	}
	if c := parse(t, head+"jobs: {a: {search: {query: tea}}}\n"); c.Retention != 0 {
		t.Errorf("without a word everything is kept, not %v", c.Retention)
	}
}

func TestLeastThatIsKept(t *testing.T) {
	c := parse(t, head+"jobs: {a: {search: {query: tea}}, b: {reuse_for: 5d, search: {query: tea}}}\n")
	if got := c.Least(); got != 5*24*time.Hour {
		t.Errorf("at least %s are kept, want five days", got)
	}
	if got := parse(t, head+"jobs: {a: {search: {query: tea}}}\n").Least(); got != 24*time.Hour {
		t.Errorf("at least %s are kept, want a day", got)
	}
}
