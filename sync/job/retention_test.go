package job

import (
	"testing"
	"time"
)

func TestRetentionIsAnAgeOrASize(t *testing.T) {
	for text, want := range map[string]Retention{
		"1d": {Age: 24 * time.Hour}, "400d": {Age: 400 * 24 * time.Hour}, "8w": {Age: 56 * 24 * time.Hour}, "36h": {Age: 36 * time.Hour},
		"1MB": {Bytes: 1e6}, "20GB": {Bytes: 20e9}, "2TB": {Bytes: 2e12},
	} {
		c := parse(t, head+"retention: {journal: "+text+"}\njobs: {a: {search: {query: tea}}}\n")
		if c.Retention != want || len(c.Warnings) > 0 || !c.Retention.Any() {
			t.Errorf("%s is %+v with %v, want %+v", text, c.Retention, c.Warnings, want)
		}
		if text != "8w" && c.Retention.String() != text {
			t.Errorf("%s is written as %s", text, c.Retention)
		}
	}
	if c := parse(t, head+"jobs: {a: {search: {query: tea}}}\n"); c.Retention.Any() || c.Retention.String() != "for ever" {
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
