// Package figures formats numbers and ages for a glance, as cards of the page and messages show them.
package figures

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Short formats a count, such as 612, 9.4K, 184K or 1.2M.
func Short(n float64) string {
	if n < 0 {
		return "-" + Short(-n)
	}
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if n >= unit.size*.9995 {
			return Digits(n/unit.size) + unit.name
		}
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// Digits formats a number with one decimal place below 10, and without .0.
func Digits(n float64) string {
	if math.Round(n*10) < 100 {
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(n, 'f', 0, 64)
}

// Times formats a multiple, such as 9.6× or 41×.
func Times(n float64) string { return Digits(n) + "×" }

// Signed formats a change, such as +22K or −612.
func Signed(n float64) string {
	sign := "+"
	if n < 0 {
		sign = "−"
	}
	return sign + Short(math.Abs(n))
}

// Gained formats the views gained a day, such as +22K/d.
func Gained(n float64) string { return Signed(n) + "/d" }

// Age formats how long ago a time was, such as 9 d, 2 wk or 2 mo.
func Age(now, at time.Time) string {
	switch days := int(now.Sub(at).Hours() / 24); {
	case days < 1:
		return fmt.Sprintf("%d h", max(0, int(now.Sub(at).Hours())))
	case days < 14:
		return fmt.Sprintf("%d d", days)
	case days < 60:
		return fmt.Sprintf("%d wk", days/7)
	case days < 730:
		return fmt.Sprintf("%d mo", days/30)
	default:
		return fmt.Sprintf("%d y", days/365)
	}
}

// Clock formats seconds as video players do, such as 1:02:03 or 4:05.
func Clock(s int64) string {
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
