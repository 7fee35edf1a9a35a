package job

import (
	"strings"
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

func TestRetentionIsWarnedOf(t *testing.T) {
	for _, c := range []struct{ file, warned string }{
		{"retention: {journal: 2d}\njobs: {a: {search: {query: tea}}}", ""},
		{"retention: {journal: 2d}\njobs: {a: {reuse_for: 2d, search: {query: tea}}}", ""},
		{"retention: {journal: 2d}\njobs: {a: {search: {query: tea}}, b: {reuse_for: 5d, search: {query: tea}}}", "is shorter than the reuse_for of job b, 5d"},
		{"retention: {journal: 1GB}\njobs: {a: {reuse_for: 5d, search: {query: tea}}}", ""},
		{"retention: {journal: 1GB}\nsinks: [{parquet: p}]\njobs: {a: {search: {query: tea}}}", ""},
		{"sinks: [{parquet: p}]\njobs: {a: {search: {query: tea}}}", ""},
	} {
		var said []string
		for _, w := range parse(t, head+c.file+"\n").Warnings {
			said = append(said, w.Message)
		}
		if all := strings.Join(said, "\n"); (c.warned == "") != (all == "") || !strings.Contains(all, c.warned) {
			t.Errorf("%s: warnings %q, want %q", c.file, said, c.warned)
		}
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
