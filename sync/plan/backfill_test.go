package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestGapsAreWhatNothingCovers(t *testing.T) {
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	for _, c := range []struct {
		covered [][2]int64
		want    string
	}{
		{nil, "10-20"},
		{[][2]int64{{1, 5}, {25, 30}}, "10-20"},
		{[][2]int64{{1, 10}}, "11-20"},
		{[][2]int64{{20, 99}}, "10-19"},
		{[][2]int64{{1, 99}}, ""},
		{[][2]int64{{10, 20}}, ""},
		{[][2]int64{{10, 14}, {15, 20}}, ""},
		{[][2]int64{{12, 13}, {16, 17}}, "18-20 14-15 10-11"},
		{[][2]int64{{12, 18}, {14, 15}, {5, 12}}, "19-20"},
	} {
		var covered []Dates
		for _, p := range c.covered {
			covered = append(covered, Dates{at(p[0]), at(p[1])})
		}
		var got []string
		for _, g := range findGaps(Dates{at(10), at(20)}, covered) {
			got = append(got, fmt.Sprintf("%d-%d", g.From.Unix(), g.To.Unix()))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v leaves %v of 10-20, want %s", c.covered, got, c.want)
		}
	}
}
