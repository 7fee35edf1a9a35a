package page

import (
	"math"
	"strconv"
	"strings"
	"time"

	"outlierd/internal/figures"
)

// formatThousands formats a whole number exactly, with thin spaces.
func formatThousands[N ~int | ~int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:] // a narrow no-break space
	}
	return digits
}

// formatWhole is [formatThousands]; "–" for nil.
func formatWhole(n *int64) string {
	if n == nil {
		return "–"
	}
	return formatThousands(*n)
}

// These format a number for a glance; "" for nil.
var (
	formatShort   = optional(func(n int64) string { return figures.Short(float64(n)) }) // 612, 9.4K, 184K, 1.2M
	formatTimes   = optional(figures.Times)                                             // a multiple of the average: 9.6×, 41×
	formatDecimal = optional(func(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) })
	formatGained  = optional(figures.Gained) // views a day
	gainedExactly = optional(func(n float64) string { return formatSigned(n) + formatThousands(int64(math.Round(math.Abs(n)))) })
)

func optional[N any](format func(N) string) func(*N) string {
	return func(n *N) string {
		if n == nil {
			return ""
		}
		return format(*n)
	}
}

func formatSigned(n float64) string {
	if n < 0 {
		return "−"
	}
	return "+"
}

// limits are the multiples of the average at which a video counts as stronger.
var limits = [...]float64{3, 5, 10, 30}

// levelOf returns the strength of a multiple of the average, from 0 to 4.
func levelOf(ratio *float64) int {
	n := 0
	for ratio != nil && n < len(limits) && *ratio >= limits[n] {
		n++
	}
	return n
}

// onRuler returns the place of a multiple on the ruler, which is logarithmic from 1 to 100, in percent.
func onRuler(ratio float64) string { return formatPercent(50 * math.Log10(max(1, min(100, ratio)))) }

func formatPercent(n float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(n, 'f', 2, 64), "0"), ".") + "%"
}

// shareOf returns n of a total, in percent of a length.
func shareOf(n, of int64) string {
	if of <= 0 {
		return "0%"
	}
	return formatPercent(100 * float64(max(0, min(n, of))) / float64(of))
}

// formatDay formats a date; "" for an unknown time.
func formatDay(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Format(time.DateOnly)
}

// formatCount formats a number of things, in the singular if it is one.
func formatCount[N ~int | ~int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return formatThousands(n) + " " + one + "s"
}

// languages are the names of common languages by code.
var languages = map[string]string{
	"ar": "Arabic", "bn": "Bengali", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
	"es": "Spanish", "fi": "Finnish", "fr": "French", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian",
	"id": "Indonesian", "it": "Italian", "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "no": "Norwegian",
	"pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish", "th": "Thai",
	"tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}
