package query

import (
	"errors"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/internal/lazyregexp"
)

// errorLine matches DuckDB's message with the line of the mistake.
var errorLine = lazyregexp.New(`(?s)^(.*)\n\nLINE (\d+): .*$`)

// explainSQL puts DuckDB's message on one line, after the line number in the SQL.
func explainSQL(err error) error {
	failed, ok := errors.AsType[*duckdb.Error](err)
	if !ok {
		return err
	}
	message, line := failed.Msg, ""
	if m := errorLine().FindStringSubmatch(message); m != nil {
		message, line = m[1], "line "+m[2]+" of the SQL: "
	}
	if failed.Type == duckdb.ErrorTypePermission {
		line = "the SQL may read only the published tables: "
	}
	return errors.New(line + strings.Join(strings.Fields(message), " "))
}
