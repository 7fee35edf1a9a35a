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

// convert converts a value of the driver to one of the types that [Run] documents. kind is DuckDB's type
// of the column. It is needed where several types of DuckDB have the same Go type: the driver returns
// DATE, TIME and TIMESTAMP as time.Time. kind is not parsed for the elements of lists and structs, so
// only the driver's own types are converted there.
func convert(v any, kind string) any {
	switch v := v.(type) {
	case time.Time:
		return convertTime(v, kind)
	case []byte:
		if kind == "UUID" && len(v) == len(uuid.UUID{}) {
			return uuid.UUID(v).String()
		}
	case float32:
		return convertFloat(v, float64(v))
	case float64:
		return convertFloat(v, v)
	case duckdb.Decimal:
		return convertDecimal(v)
	case duckdb.Interval:
		return convertInterval(v)
	case duckdb.Union:
		return convert(v.Value, "")
	case duckdb.OrderedMap:
		return convertMap(v)
	case []any:
		for i := range v {
			v[i] = convert(v[i], "")
		}
	case map[string]any:
		for name := range v {
			v[name] = convert(v[name], "")
		}
	}
	return v
}

// convertTime returns a TIMESTAMP WITH TIME ZONE unchanged, and other times as texts without a zone. Times
// before the year 1 and after the year 9999, and infinite ones, become texts too, because they cannot be
// marshalled to JSON.
func convertTime(at time.Time, kind string) any {
	const date, clock = "2006-01-02", "15:04:05.999999999"
	switch {
	case kind == "TIMESTAMPTZ" && at.UnixMicro() == math.MaxInt64:
		return "infinity"
	case kind == "TIMESTAMPTZ" && at.UnixMicro() == -math.MaxInt64:
		return "-infinity"
	case kind == "TIMESTAMPTZ" && at.UTC().Year() < 1:
		return fmt.Sprintf("%04d-%s", 1-at.UTC().Year(), at.UTC().Format("01-02 (BC) "+clock))
	case kind == "DATE":
		return at.Format(date)
	case kind == "TIME":
		return at.Format(clock)
	case strings.HasPrefix(kind, "TIME WITH"), kind == "TIMETZ":
		return at.Format(clock + "Z07:00")
	case kind != "TIMESTAMPTZ" && strings.HasPrefix(kind, "TIMESTAMP") || at.Year() > 9999:
		return at.UTC().Format(date + " " + clock)
	}
	return at
}

// convertFloat returns finite numbers unchanged, and NaN and infinity as the texts of SQL, because JSON has
// no numbers for them.
func convertFloat(v any, f float64) any {
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

// convertDecimal keeps all digits, including trailing zeros.
func convertDecimal(d duckdb.Decimal) json.Number {
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

// convertInterval formats an interval like DuckDB, so that SQL can parse it: "1 month 3 days 00:00:01.5".
func convertInterval(i duckdb.Interval) string {
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
	return strings.Join(append(parts, clockTime(i.Micros)), " ")
}

func clockTime(micros int64) string {
	sign, n := "", uint64(micros)
	if micros < 0 {
		sign, n = "-", -n // unsigned, so that it is correct for MinInt64 too
	}
	seconds := n / 1e6
	text := fmt.Sprintf("%s%02d:%02d:%02d.%06d", sign, seconds/3600, seconds/60%60, seconds%60, n%1e6)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// convertMap converts the values of a map and keeps its order.
func convertMap(m duckdb.OrderedMap) *duckdb.OrderedMap {
	ordered := &duckdb.OrderedMap{}
	values := m.Values()
	for i, key := range m.Keys() {
		ordered.Set(key, convert(values[i], ""))
	}
	return ordered
}
