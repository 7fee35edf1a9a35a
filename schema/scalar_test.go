package schema

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseIntTakesWholeNumbersExactly(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "-0": 0, "7": 7, "-7": -7, `"12"`: 12, `"-12"`: -12, "5.0": 5, "5.000": 5, "-0.0": 0, `"5.0"`: 5,
		"5e0": 5, "1.5E+3": 1500, "50e-1": 5, "1e15": 1e15, "0e5": 0,
		"999999999999999999": 999999999999999999, "1000000000000000000": 1000000000000000000,
		"9223372036854775807": math.MaxInt64, "-9223372036854775808": math.MinInt64, "9223372036854775807.0": math.MaxInt64,
		"9007199254740993": 9007199254740993, "9007199254740993.0": 9007199254740993,
	} {
		if got, ok := parseInt([]byte(s)); !ok || got != want {
			t.Errorf("%s is read as %d, %t", s, got, ok)
		}
	}
}

func TestParseIntRefusesOtherTexts(t *testing.T) {
	for _, s := range []string{
		"", `""`, "null", "true", "{}", "-", `"-"`, "5.5", "5.0000000000000000000000001", "9223372036854775808", "1e18", "1e19", "1e-1", "15e-1",
		"1e999999999", `"05"`, `"+5"`, `" 5"`, `"5 "`, `"0x10"`, `"1_000"`, `"1,000"`, `"5."`, `".5"`, `"Inf"`, `"\u0035"`, "12345678901234567.5e1",
		"9007199254740993e0", "-9007199254740993E+0", `"900719925474099.3e1"`, // 2^53 + 1, which no float64 is
	} {
		if got, ok := parseInt([]byte(s)); ok {
			t.Errorf("%s is read as %d", s, got)
		}
	}
}

func TestParseIntReadsEveryInt64(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Int64().Draw(t, "x")
		for _, form := range []string{"%", `"%"`, "%.0", `"%.00"`} {
			s := strings.ReplaceAll(form, "%", strconv.FormatInt(want, 10))
			if got, ok := parseInt([]byte(s)); !ok || got != want {
				t.Fatalf("%s is read as %d, %t", s, got, ok)
			}
		}
	})
}

func TestParseFloatIsTheNearest(t *testing.T) {
	check := func(t interface{ Errorf(string, ...any) }, s string) {
		want, err := strconv.ParseFloat(s, 64)
		if got, ok := parseFloat([]byte(s)); ok != (err == nil) || ok && math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%s is read as %v, %t, want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{
		"0", "-0", "-0.0", "0.1", "0.05", "123.456", "-2.5", "9007199254740992", "9007199254740993", "9007199254740993.5", "7.812345678901234",
		"0.0000000000000000000001", "0.00000000000000000000012", "123456789012345678901234567890", "1e308", "1e309", "-1e309", "4.9e-324", "1e-400",
		"0.3000000000000000444", "2.2250738585072011e-308", "1.7976931348623157e308",
	} {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64().Draw(t, "x")
		check(t, strconv.FormatFloat(x, 'g', -1, 64))
		check(t, strconv.FormatFloat(math.Mod(x, 1e6), 'f', rapid.IntRange(0, 25).Draw(t, "decimals"), 64))
	})
}

func TestParseFloatAcceptsOnlyJSON(t *testing.T) {
	for _, s := range []string{
		"", `""`, "null", "true", "[1]", `"-"`, `"."`, `"5."`, `".5"`, `"-.5"`, `"05"`, `"00.5"`, `"+5"`, `" 5"`, `"Inf"`, `"nan"`,
		`"0x1p-2"`, `"1_0.5"`, `"1e"`, `"1.2.3"`, `"1,5"`, "1e309",
	} {
		if got, ok := parseFloat([]byte(s)); ok {
			t.Errorf("%s is read as %v", s, got)
		}
	}
}

func TestParseTimeTakesRFC3339AndDates(t *testing.T) {
	for s, want := range map[string]string{
		"2025-11-20T08:00:00Z":               "2025-11-20T08:00:00Z",
		"2025-11-20T08:00:00.1Z":             "2025-11-20T08:00:00.1Z",
		"2025-11-20T08:00:00.123Z":           "2025-11-20T08:00:00.123Z",
		"2025-11-20T08:00:00.123456789Z":     "2025-11-20T08:00:00.123456Z",
		"2025-11-20T08:00:00+02:00":          "2025-11-20T06:00:00Z",
		"2025-11-20T08:00:00.5-11:30":        "2025-11-20T19:30:00.5Z",
		"2025-11-20":                         "2025-11-20T00:00:00Z",
		"1960-02-29T23:59:59.999999Z":        "1960-02-29T23:59:59.999999Z",
		"1969-12-31T23:59:59.9999999Z":       "1969-12-31T23:59:59.999999Z",
		"9999-12-31T23:59:59Z":               "9999-12-31T23:59:59Z",
		"0001-01-01T00:00:00Z":               "0001-01-01T00:00:00Z",
		"":                                   "",
		"3 weeks ago":                        "",
		"20251120":                           "",
		"2025-11-20 08:00:00":                "",
		"2025-11-20T08:00:00":                "",
		"2025-11-20T08:00Z":                  "",
		"2025-11-20T24:00:00Z":               "",
		"2025-02-29":                         "",
		"2025-13-01":                         "",
		"2025-11-20T08:00:60Z":               "",
		"2025-11-20T08:00:00Z or thereabout": "",
	} {
		at, ok := parseTime([]byte(s))
		got := ""
		if ok {
			got = time.UnixMicro(at.UnixMicro()).UTC().Format(time.RFC3339Nano)
		}
		if got != want {
			t.Errorf("%q is read as %q, want %q", s, got, want)
		}
	}
}
