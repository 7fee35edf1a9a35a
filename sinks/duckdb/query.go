package duckdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/duckdb/duckdb-go/v2"
)

// Query asks a published file and hands over the names of the result's columns,
// once, and then each row. The file is opened read-only for this query and closed
// after it: the driver shares instances by path, and one that stayed open would
// go on showing the file from before the next publication.
//
// Values are nil for NULL, bool, the integers and floats of Go, *big.Int for HUGEINT
// and its like, json.Number for DECIMAL, time.Time for TIMESTAMP WITH TIME ZONE,
// []byte for BLOB, []any for lists and map[string]any for structs. A map marshals
// itself into JSON in its own order. Everything else, such as a DATE, an INTERVAL, a
// UUID or what is no finite number, is a string as SQL writes it.
func Query(ctx context.Context, path, text string, columns func([]string) error, row func([]any) error) (err error) {
	connector, err := duckdb.NewConnector(path+"?access_mode=READ_ONLY&autoinstall_known_extensions=false&autoload_known_extensions=false", nil)
	if err != nil {
		return fmt.Errorf("open %s read-only: %w", path, err)
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, text)
	if err != nil {
		return fmt.Errorf("query %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	if err := columns(names); err != nil {
		return err
	}
	kinds, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	values, targets := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return fmt.Errorf("read a row of the result: %w", err)
		}
		for i, v := range values {
			values[i] = plain(v, kinds[i].DatabaseTypeName())
		}
		if err := row(values); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("query %s: %w", path, err)
	}
	return nil
}
