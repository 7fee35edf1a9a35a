package query

import (
	"fmt"
	"math"
	"time"
)

// convertValue converts a value of the driver that would not marshal to JSON. [selectReadable] has DuckDB convert all
// others. kind is DuckDB's type of the column.
func convertValue(v any, kind string) any {
	switch v := v.(type) {
	case time.Time:
		return convertTime(v, kind)
	case float32:
		return convertFloat(v, float64(v))
	case float64:
		return convertFloat(v, v)
	}
	return v
}

// convertTime returns a TIMESTAMP WITH TIME ZONE unchanged, and others as texts without a zone. Times before the year 1
// and after the year 9999, and infinite ones, become texts, too.
func convertTime(at time.Time, kind string) any {
	const clock = "15:04:05.999999999"
	switch {
	case at.UnixMicro() == math.MaxInt64:
		return "infinity"
	case at.UnixMicro() == -math.MaxInt64:
		return "-infinity"
	case at.UTC().Year() < 1:
		return fmt.Sprintf("%04d-%s", 1-at.UTC().Year(), at.UTC().Format("01-02 (BC) "+clock))
	case kind != "TIMESTAMPTZ" || at.Year() > 9999:
		return at.UTC().Format("2006-01-02 " + clock)
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
