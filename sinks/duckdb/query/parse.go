package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/duckdb/duckdb-go/v2"

	"outlierd/internal/lazyregexp"
	"outlierd/sinks/duckdb/database"
)

// oneSelect returns an error if SQL is not one SELECT, or calls a table function that is not allowed.
// It only parses the SQL: the driver's Prepare would run all statements but the last.
func oneSelect(ctx context.Context, db *database.DB, sql string) error {
	rows, err := db.Query(ctx, "SELECT json_serialize_sql("+database.Text(sql)+")::VARCHAR")
	if err != nil {
		return err
	}
	var parsed struct {
		Statements []any  `json:"statements"`
		Type       string `json:"error_type"`
		Message    string `json:"error_message"`
		Position   string `json:"position"` // offset, in bytes
	}
	if err := json.Unmarshal([]byte(rows[0][0].(string)), &parsed); err != nil {
		return fmt.Errorf("parse SQL: %w", err)
	}
	switch {
	case parsed.Type == "parser":
		return syntaxError(sql, parsed.Message, parsed.Position)
	case parsed.Type != "" || len(parsed.Statements) != 1:
		return errors.New("the SQL must be one SELECT and nothing else")
	}
	if hasParameter(parsed.Statements) {
		return ErrParameter
	}
	for _, name := range tableFunctions(parsed.Statements) {
		if !slices.Contains(tableFunctionsAllowed, name) {
			return fmt.Errorf("the SQL calls %s: in FROM it may use only the tables and the functions %s",
				name, strings.Join(tableFunctionsAllowed, ", "))
		}
	}
	return nil
}

func syntaxError(sql, message, position string) error {
	at, err := strconv.Atoi(position)
	if err != nil {
		return fmt.Errorf("the SQL: %s", oneLine(message)) // without a position
	}
	return fmt.Errorf("line %d of the SQL: %s", 1+strings.Count(sql[:min(at, len(sql))], "\n"), oneLine(message))
}

// tableFunctionsAllowed are the functions that user SQL may call in FROM. Others read files, run SQL
// from texts, or change DuckDB although they are called in a SELECT. One of them even ends the process:
// it makes DuckDB log to a file, which the settings forbid.
var tableFunctionsAllowed = []string{"generate_series", "json_each", "json_tree", "range", "repeat", "unnest"}

// tableFunctions returns the names of all functions that a parsed statement calls in FROM, including
// subqueries.
func tableFunctions(tree any) (names []string) {
	switch tree := tree.(type) {
	case []any:
		for _, branch := range tree {
			names = append(names, tableFunctions(branch)...)
		}
	case map[string]any:
		if tree["type"] == "TABLE_FUNCTION" {
			call, _ := tree["function"].(map[string]any)
			name, _ := call["function_name"].(string)
			names = append(names, strings.ToLower(name))
		}
		for _, branch := range tree {
			names = append(names, tableFunctions(branch)...)
		}
	}
	slices.Sort(names)
	return names
}

// hasParameter reports whether a parsed statement has a parameter.
func hasParameter(tree any) bool {
	switch tree := tree.(type) {
	case []any:
		return slices.ContainsFunc(tree, hasParameter)
	case map[string]any:
		return tree["class"] == "PARAMETER" || slices.ContainsFunc(slices.Collect(maps.Values(tree)), hasParameter)
	}
	return false
}

var errorLine = lazyregexp.New(`(?s)^(.*)\n\nLINE (\d+): .*$`)

// explainSQL puts DuckDB's message on one line, after the line number in the SQL.
func explainSQL(err error) error {
	failed, ok := errors.AsType[*duckdb.Error](err)
	if !ok {
		return err
	}
	m := errorLine().FindStringSubmatch(failed.Msg)
	if m == nil {
		return errors.New(oneLine(failed.Msg))
	}
	return fmt.Errorf("line %s of the SQL: %s", m[2], oneLine(m[1]))
}

func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }
