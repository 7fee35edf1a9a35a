package query

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/duckdb/duckdb-go/v2"
	"github.com/google/uuid"
)

// plain turns a value of the driver into one of the types that [Run] promises.
// kind is the type of its column in the words of DuckDB. It matters where one Go
// type stands for several of DuckDB's: a date, a time of day and a moment are all
// time.Time. Inside lists and structs, whose kinds are not taken apart, only the
// driver's own types are replaced.
func plain(v any, kind string) any {
	switch v := v.(type) {
	case time.Time:
		return moment(v, kind)
	case []byte:
		if kind == "UUID" && len(v) == len(uuid.UUID{}) {
			return uuid.UUID(v).String()
		}
	case float32:
		return finite(v, float64(v))
	case float64:
		return finite(v, v)
	case duckdb.Decimal:
		return decimal(v)
	case duckdb.Interval:
		return interval(v)
	case duckdb.Union:
		return plain(v.Value, "")
	case duckdb.OrderedMap:
		return entries(v)
	case []any:
		for i := range v {
			v[i] = plain(v[i], "")
		}
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name], "")
		}
	}
	return v
}

// moment leaves a TIMESTAMP WITH TIME ZONE as it is and writes the others without a
// zone, as they have none. Times beyond the year 9999 (DuckDB's infinity is one)
// become text too, since JSON has no other form for them.
func moment(at time.Time, kind string) any {
	const date, clock = "2006-01-02", "15:04:05.999999999"
	switch {
	case kind == "DATE":
		return at.Format(date)
	case kind == "TIME":
		return at.Format(clock)
	case strings.HasPrefix(kind, "TIME WITH"), kind == "TIMETZ":
		return at.Format(clock + "Z07:00")
	case kind != "TIMESTAMPTZ" && strings.HasPrefix(kind, "TIMESTAMP") || at.Year() > 9999 || at.Year() < 0:
		return at.UTC().Format(date + " " + clock)
	}
	return at
}

// finite leaves numbers alone; others are the text by which SQL knows them,
// because JSON cannot write it otherwise.
func finite(v any, f float64) any {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	return v
}

// decimal keeps every digit, the zeros at the end included.
func decimal(d duckdb.Decimal) json.Number {
	digits, sign := d.Value.String(), ""
	if d.Value.Sign() < 0 {
		digits, sign = digits[1:], "-"
	}
	scale := int(d.Scale)
	if scale == 0 {
		return json.Number(sign + digits)
	}
	digits = strings.Repeat("0", max(0, scale+1-len(digits))) + digits
	return json.Number(sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:])
}

// interval is written in DuckDB's words: "1 month 3 days 00:00:01.5", as SQL reads
// them back.
func interval(i duckdb.Interval) string {
	var parts []string
	for _, part := range []struct {
		n    int32
		unit string
	}{{i.Months / 12, "year"}, {i.Months % 12, "month"}, {i.Days, "day"}} {
		switch part.n {
		case 0:
		case 1, -1:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.unit))
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", part.n, part.unit))
		}
	}
	if i.Micros == 0 && len(parts) > 0 {
		return strings.Join(parts, " ")
	}
	return strings.Join(append(parts, hours(i.Micros)), " ")
}

func hours(micros int64) string {
	sign, n := "", uint64(micros)
	if micros < 0 {
		sign, n = "-", -n // also for the smallest of all
	}
	seconds := n / 1e6
	text := fmt.Sprintf("%s%02d:%02d:%02d.%06d", sign, seconds/3600, seconds/60%60, seconds%60, n%1e6)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// entries is a map in its order, with plain values.
func entries(m duckdb.OrderedMap) *duckdb.OrderedMap {
	ordered := &duckdb.OrderedMap{}
	values := m.Values()
	for i, key := range m.Keys() {
		ordered.Set(key, plain(values[i], ""))
	}
	return ordered
}
