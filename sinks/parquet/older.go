package parquet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/warehouse"
)

// Older returns a folder as a copy from which the warehouse takes rows. A folder with a part that is missing or has
// changed is refused.
func Older(dir string, tables []*schema.Table) warehouse.Older {
	return warehouse.Older{Path: dir, Look: func(ctx context.Context) (has sinks.Marks, attach string, err error) {
		found, err := Look(ctx, dir, "", tables)
		if err != nil {
			return has, "", err
		}
		changed, err := found.Verify(ctx)
		if problems := append(found.Problems, changed...); err == nil && len(problems) > 0 {
			err = errors.New(strings.Join(problems, "; "))
		}
		sql := []string{"ATTACH ':memory:' AS older"}
		for _, t := range tables {
			var paths []string
			for _, path := range found.Paths(t) {
				paths = append(paths, database.Text(path))
			}
			if len(paths) == 0 {
				continue
			}
			sql = append(sql, fmt.Sprintf("CREATE VIEW older.main.%s AS SELECT *, (%s, file_row_number) AS rowid "+
				"FROM read_parquet([%s], file_row_number = true, hive_partitioning = false, union_by_name = true)",
				database.Name(t.Name), sinks.ResponseID, strings.Join(paths, ", ")))
		}
		return found.Marks, strings.Join(sql, "; "), err
	}}
}
