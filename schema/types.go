package schema

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// The column types. Times are microseconds in UTC, TIMESTAMPTZ in DuckDB.
var (
	varchar   = arrow.BinaryTypes.String
	bigint    = arrow.PrimitiveTypes.Int64
	double    = arrow.PrimitiveTypes.Float64
	boolean   = arrow.FixedWidthTypes.Boolean
	timestamp = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	texts     = arrow.ListOf(varchar)
	counts    = arrow.MapOf(varchar, bigint)

	// image is one thumbnail. A video has three with fixed names; a short and an author have a
	// list (interface, Resources).
	image      = structOf("url", varchar, "width", bigint, "height", bigint)
	thumbnails = structOf("default", image, "medium", image, "high", image)
	images     = arrow.ListOf(image)

	// namedImages accepts both shapes, because one table has the uploads of both: the name is
	// "default", "medium" or "high" for a video, NULL for a short.
	namedImages = arrow.ListOf(structOf("name", varchar, "url", varchar, "width", bigint, "height", bigint))
)

// structOf returns a struct type from alternating names and types.
func structOf(pairs ...any) *arrow.StructType {
	var fields []arrow.Field
	for i := 0; i < len(pairs); i += 2 {
		fields = append(fields, arrow.Field{Name: pairs[i].(string), Type: pairs[i+1].(arrow.DataType), Nullable: true})
	}
	return arrow.StructOf(fields...)
}

// SQLType returns the column's DuckDB type.
func (c Column) SQLType() string {
	if c.JSON {
		return "JSON"
	}
	return SQLType(c.Type)
}

// SQLType returns the DuckDB type for an Arrow type. It panics for a type that no table may use.
func SQLType(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.StringType:
		return "VARCHAR"
	case *arrow.Int64Type:
		return "BIGINT"
	case *arrow.Float64Type:
		return "DOUBLE"
	case *arrow.BooleanType:
		return "BOOLEAN"
	case *arrow.TimestampType:
		return "TIMESTAMPTZ"
	case *arrow.MapType:
		return "MAP(" + SQLType(t.KeyType()) + ", " + SQLType(t.ItemType()) + ")"
	case *arrow.ListType:
		return SQLType(t.Elem()) + "[]"
	case *arrow.StructType:
		var fields []string
		for _, f := range t.Fields() {
			fields = append(fields, strconv.Quote(f.Name)+" "+SQLType(f.Type))
		}
		return "STRUCT(" + strings.Join(fields, ", ") + ")"
	}
	panic(fmt.Sprintf("schema: columns of type %v have no SQL type", t))
}
