package state

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"outlierd/sync/ledger"
	"outlierd/sync/store"
)

// opsTable says how a table of operations follows from the state. Its columns are
// those that package schema declares under the same name, in the same order.
type opsTable struct {
	source  string // the table of the state whose changes are those of the rows
	from    string // the rows
	id      string // their number, which is that of the source's row
	columns []opsColumn
}

type opsColumn struct {
	name string
	sql  string
	as   func(any) (any, error) // from what SQLite gives to what a sink takes
}

var opsTables = map[string]opsTable{
	"ops.runs": {
		source: "runs", from: `runs`, id: `id`,
		columns: []opsColumn{
			{"id", `id`, plain}, {"run_id", `run`, text}, {"job", `job`, text}, {"trigger", `cause`, text},
			{"due_at", `due`, moment}, {"started_at", `started`, moment}, {"ended_at", `ended`, moment}, {"status", `status`, text},
			{"pages", `pages`, plain}, {"hits", `hits`, plain}, {"new_hits", `new_hits`, plain}, {"rows", `row_counts`, counts},
			{"requests", `requests`, plain}, {"credits", `credits`, plain}, {"refunded", `refunded`, plain},
			{"missing", `missing`, plain}, {"failures", `failures`, plain}, {"waited_s", `waited`, seconds},
			{"error", `error`, text}, {"config_hash", `config`, text},
			{"rest_of", `rest_of`, text},
		},
	},
	"ops.searches": {
		source: "steps", from: `steps JOIN runs r USING (run)`, id: `steps.id`,
		columns: []opsColumn{
			{"id", `steps.id`, plain}, {"run_id", `steps.run`, text}, {"job", `r.job`, text}, {"item", `steps.item`, text}, {"operation", `steps.op`, text},
			{"queries", `steps.queries`, texts}, {"seeds", `steps.seeds`, texts}, {"filters", `steps.params`, filters},
			{"window_from", `steps.params`, parameterTime("publishedAtFrom")}, {"window_to", `steps.params`, parameterTime("publishedAtTo")},
			{"total", `nullif(steps.total, -1)`, plain}, {"pages", `steps.pages`, plain}, {"hits", `steps.hits`, plain}, {"new_hits", `steps.new_hits`, plain},
			{"stop_reason", `steps.stop`, text}, {"credits", ledger.StepCredits, plain},
			{"reused", `steps.reused`, plain}, {"began_at", `steps.began`, moment}, {"left_pages", `nullif(steps.left_pages, -1)`, plain},
			{"seen", `steps.seen`, plain}, {"left_hits", `iif(steps.total < 0, NULL, max(0, steps.total - steps.seen))`, plain}, {"rest_of", `steps.origin`, plain},
			{"unreadable", `steps.unread`, plain},
		},
	},
	"ops.requests": {
		source: "attempts", from: `(SELECT * FROM attempts WHERE adjustment IS NULL AND op <> '` + ledger.OpJoinScan + `')`, id: `id`,
		columns: []opsColumn{
			{"id", `id`, plain}, {"run_id", `run`, text}, {"job", `job`, text}, {"operation", `op`, text}, {"entity", `entity`, text},
			{"parameters", `params`, parameters}, {"page_from", `page_from`, plain}, {"page_size", `page_size`, plain},
			{"page_total", `page_total`, plain}, {"attempt", `attempt`, plain}, {"sent_at", `sent_at`, moment},
			{"answered_at", `settled_at`, moment}, {"waited_s", `waited`, seconds}, {"http_status", `nullif(http_status, 0)`, plain},
			{"outcome", `iif(state IN ('reserved', 'sending'), '', state)`, text}, {"bytes", `bytes`, plain}, {"response_id", `response`, plain},
		},
	},
	"ops.credits": {
		source: "attempts", from: `(SELECT * FROM attempts WHERE price > 0 OR adjustment IS NOT NULL)`, id: `id`,
		columns: []opsColumn{
			{"id", `id`, plain}, {"run_id", `run`, text}, {"job", `job`, text}, {"operation", `op`, text}, {"price", `coalesce(adjustment, price)`, plain},
			{"outcome", `CASE state WHEN 'charged' THEN 'spent' WHEN 'sending' THEN 'reserved' ELSE state END`, text},
			{"reserved_at", `reserved_at`, moment}, {"settled_at", `settled_at`, moment}, {"day", `day`, text}, {"month", `cycle`, text},
			{"cap_run", capInForce("max", "run"), plain}, {"cap_day", capInForce("max", "day"), plain},
			{"cap_job_month", capInForce("max", "job_month"), plain}, {"cap_month", capInForce("max", "month"), plain}, {"reserve", capInForce("reserve", "month"), plain},
			{"response_id", `response`, plain},
		},
	},
	"ops.limits": {
		source: "limits", from: `limits`, id: `id`,
		columns: []opsColumn{
			{"id", `id`, plain}, {"observed_at", `observed_at`, moment}, {"max_requests", `max_requests`, plain}, {"window_s", `window`, seconds},
			{"remaining", `remaining`, plain}, {"reset_at", `reset_at`, moment}, {"foreign_requests", `foreign_requests`, plain},
		},
	},
}

// capInForce is a field of the cap of one scope, as it was at the reservation.
func capInForce(field, scope string) string {
	return fmt.Sprintf(`(SELECT value ->> '%s' FROM json_each(caps) WHERE value ->> 'scope' = '%s')`, field, scope)
}

// OpsNews says which rows of the operations tables have changed since a version of them.
type OpsNews struct {
	Version int64 // of the tables, up to which the news go
	All     bool  // all rows are news: what changed since is not on record any more

	changed map[string][]int64 // by source, the ids of rows, unless all are news
}

// None reports whether nothing has changed.
func (n OpsNews) None() bool { return !n.All && len(n.changed) == 0 }

// opsForgotten is where meta keeps the version up to which changes were forgotten.
const opsForgotten = "ops changes forgotten"

// OpsNews returns what has changed since the given version; 0 means all rows. What it
// returns is durable.
func (s *Store) OpsNews(since int64) (OpsNews, error) {
	if err := s.db.Flush(); err != nil {
		return OpsNews{}, err
	}
	news := OpsNews{changed: map[string][]int64{}}
	err := s.db.View(func(tx *store.Tx) error {
		err := tx.Row(`SELECT seq FROM sqlite_sequence WHERE name = 'ops_changes'`).Scan(&news.Version)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		forgotten, err := readForgotten(tx)
		if news.All = since == 0 || since < forgotten || since > news.Version; err != nil || news.All {
			return err
		}
		type change struct {
			source string
			id     int64
		}
		changes, err := store.List(tx, func(c *change) []any { return []any{&c.source, &c.id} },
			`SELECT source, id FROM ops_changes WHERE version > ? ORDER BY version`, since)
		for _, c := range changes {
			news.changed[c.source] = append(news.changed[c.source], c.id)
		}
		return err
	})
	if err != nil {
		return OpsNews{}, fmt.Errorf("look for changes of the operations tables: %w", err)
	}
	return news, nil
}

func readForgotten(tx *store.Tx) (int64, error) {
	text, err := tx.Meta(opsForgotten)
	if err != nil || text == "" {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// ForgetOps removes the changes up to a version, once all sinks have them. [Store.OpsNews]
// since an earlier version returns all rows from then on. It joins the open group.
func (s *Store) ForgetOps(version int64) error {
	err := s.db.UpdateSoon(func(tx *store.Tx) error {
		forgotten, err := readForgotten(tx)
		if err != nil || forgotten >= version {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM ops_changes WHERE version <= ?`, version); err != nil {
			return err
		}
		return tx.SetMeta(opsForgotten, strconv.FormatInt(version, 10))
	})
	if err != nil {
		return fmt.Errorf("forget changes of the operations tables: %w", err)
	}
	return nil
}

// OpsColumns are the columns of an operations table.
func OpsColumns(table string) (columns []string) {
	for _, c := range opsTables[table].columns {
		columns = append(columns, c.name)
	}
	return columns
}

// OpsRows yields the news of an operations table in chunks of so many rows, in the order of
// their ids. Values are nil, int64, float64, string, time.Time, []string or map[string]int64.
// An error comes last.
func (s *Store) OpsRows(table string, news OpsNews, most int) iter.Seq2[[][]any, error] {
	return func(yield func([][]any, error) bool) {
		t, ok := opsTables[table]
		if !ok {
			yield(nil, fmt.Errorf("there is no operations table %q", table))
			return
		}
		changed := slices.Sorted(slices.Values(news.changed[t.source]))
		for last := int64(0); ; {
			var rows [][]any
			if !news.All && len(changed) == 0 {
				return
			}
			err := s.db.View(func(tx *store.Tx) (err error) {
				if news.All {
					rows, err = t.rows(tx, `> ?1 ORDER BY `+t.id+` LIMIT ?2`, last, most)
					return err
				}
				some := changed[:min(most, len(changed))]
				changed = changed[len(some):]
				ids, err := json.Marshal(some)
				if err == nil {
					rows, err = t.rows(tx, `IN (SELECT value FROM json_each(?)) ORDER BY `+t.id, string(ids))
				}
				return err
			})
			if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", table, err))
				return
			}
			if len(rows) > 0 && !yield(rows, nil) || news.All && len(rows) < most {
				return
			}
			if len(rows) > 0 {
				last = rows[len(rows)-1][0].(int64)
			}
		}
	}
}

// rows reads those whose number meets a condition. Their first column is the number.
func (t opsTable) rows(tx *store.Tx, condition string, args ...any) ([][]any, error) {
	var expressions []string
	for _, c := range t.columns {
		expressions = append(expressions, c.sql)
	}
	query := fmt.Sprintf(`SELECT %s FROM %s WHERE %s %s`, strings.Join(expressions, ", "), t.from, t.id, condition)
	rows, err := store.List(tx, func(row *[]any) []any {
		*row = make([]any, len(t.columns))
		into := make([]any, len(t.columns))
		for i := range into {
			into[i] = &(*row)[i]
		}
		return into
	}, query, args...)
	for _, row := range rows {
		for i, c := range t.columns {
			if row[i] == nil {
				continue
			}
			if row[i], err = c.as(row[i]); err != nil {
				return nil, fmt.Errorf("row %v, column %s: %w", row[0], c.name, err)
			}
		}
	}
	return rows, err
}

func plain(v any) (any, error) { return v, nil }

// text is NULL where there is none.
func text(v any) (any, error) {
	if v == "" {
		return nil, nil
	}
	return v, nil
}

func moment(v any) (any, error) {
	if us, ok := v.(int64); ok && us != 0 {
		return store.Instant(us), nil
	}
	return nil, nil
}

func seconds(v any) (any, error) {
	us, _ := v.(int64)
	return (time.Duration(us) * time.Microsecond).Seconds(), nil
}

func texts(v any) (any, error) {
	var list []string
	err := json.Unmarshal([]byte(v.(string)), &list)
	if list == nil {
		return nil, err
	}
	return list, err
}

func counts(v any) (any, error) {
	var rows map[string]int64
	err := json.Unmarshal([]byte(v.(string)), &rows)
	if rows == nil {
		return nil, err
	}
	return rows, err
}

// parameters are a request's parameters as a JSON object; one that was given more
// than once is a list.
func parameters(v any) (any, error) { return parametersBut(v.(string)) }

// filters are a search's parameters but for its queries, which have a column.
func filters(v any) (any, error) { return parametersBut(v.(string), "query") }

func parametersBut(encoded string, names ...string) (any, error) {
	if encoded == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(encoded)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		values.Del(name)
	}
	object := map[string]any{}
	for name, list := range values {
		object[name] = list
		if len(list) == 1 {
			object[name] = list[0]
		}
	}
	text, err := json.Marshal(object)
	return string(text), err
}

// parameterTime reads a time among a search's parameters; NULL if there is none, or
// one in another form, which the filters still tell.
func parameterTime(name string) func(any) (any, error) {
	return func(v any) (any, error) {
		values, err := url.ParseQuery(v.(string))
		if err != nil || values.Get(name) == "" {
			return nil, err
		}
		t, err := time.Parse(time.RFC3339, values.Get(name))
		if err != nil {
			return nil, nil
		}
		return t.UTC(), nil
	}
}
