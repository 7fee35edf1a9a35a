package query

import (
	"context"
	"fmt"
	"strings"

	"outlierd/sinks/duckdb/database"
)

// This file has the queries of commands that need rows by id. Functions return SQL with quoted values, because ids
// come from the service and from users.

// VideoLink is the SQL of the column link of a table t: the URL of the video, or the id if that has an
// unknown form.
const VideoLink = "case when regexp_full_match(t.video_id, '[A-Za-z0-9_-]{11}') " +
	"then 'https://youtu.be/' || t.video_id else t.video_id end as link"

// RowsOf returns a query for columns of the rows of a table t whose key is one of ids, in the order of
// ids. order sorts the rows of one id further, such as ", t.position".
func RowsOf(table, key, columns, order string, ids []string) string {
	places := make([]int, len(ids))
	for i := range places {
		places[i] = i
	}
	return fmt.Sprintf("select %s from %s order by place%s", columns, Placed(table, key, ids, places), order)
}

// Placed returns the rows of a table t whose key is one of ids, as what follows FROM. The column place has the place
// of each id.
func Placed(table, key string, ids []string, places []int) string {
	if len(ids) == 0 {
		return fmt.Sprintf("(select *, 0 as place from %s where false) as t", table)
	}
	var rows []string
	for i, id := range ids {
		rows = append(rows, fmt.Sprintf("(%s, %d)", database.Text(id), places[i]))
	}
	return fmt.Sprintf("%s as t join (values %s) as wanted(id, place) on t.%s = wanted.id",
		table, strings.Join(rows, ", "), key)
}

// Missing calls each for each of ids that the service does not have, with the operation that requested
// it and the time of the answer.
func Missing(ctx context.Context, path string, ids []string, each func(operation, id, at any)) error {
	text := RowsOf("missing", "id", "t.endpoint, t.id, t.checked_at", ", endpoint", ids)
	return Run(ctx, path, text, nil, func(values []any) error {
		each(values[0], values[1], values[2])
		return nil
	})
}

// TitleOf returns the title of a video and of its channel, or the title of a channel. They are nil if
// the tables do not have them.
func TitleOf(ctx context.Context, path, id string) (title, channel any, err error) {
	text := fmt.Sprintf(`select title, channel_title from outliers where video_id = %[1]s
		union all select title, channel_title from videos where video_id = %[1]s
		union all select title, null from channels where channel_id = %[1]s limit 1`, database.Text(id))
	err = Run(ctx, path, text, nil, func(values []any) error {
		title, channel = values[0], values[1]
		return nil
	})
	return title, channel, err
}
