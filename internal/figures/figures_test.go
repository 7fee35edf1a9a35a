package figures

import (
	"testing"
	"time"
)

func TestNumbersAreShort(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{Short(0), "0"}, {Short(612), "612"}, {Short(999.4), "999"}, {Short(999.6), "1K"}, {Short(9400), "9.4K"},
		{Short(9949), "9.9K"}, {Short(9950), "10K"}, {Short(184_499), "184K"}, {Short(999_499), "999K"},
		{Short(999_500), "1M"}, {Short(1_200_000), "1.2M"}, {Short(2e9), "2B"}, {Short(-1500), "-1.5K"},
		{Times(9.58), "9.6×"}, {Times(9.96), "10×"}, {Times(41.4), "41×"}, {Times(3), "3×"},
		{Gained(22_100), "+22K/d"}, {Gained(-40), "−40/d"},
		{Age(now, now.Add(time.Hour)), "0 h"}, {Age(now, now.Add(-23*time.Hour)), "23 h"},
		{Age(now, now.AddDate(0, 0, -9)), "9 d"}, {Age(now, now.AddDate(0, 0, -14)), "2 wk"},
		{Age(now, now.AddDate(0, 0, -61)), "2 mo"}, {Age(now, now.AddDate(-3, 0, 0)), "3 y"},
		{Clock(65), "1:05"}, {Clock(3723), "1:02:03"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}
