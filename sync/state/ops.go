package state

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// opsTable says how a table of operations follows from the state. Its columns are
// those that package schema declares under the same name, in the same order.
type opsTable struct {
	from    string // the rows
	id      string // their number
	last    string // query: the highest number up to which every row is final
	columns []opsColumn
}

type opsColumn struct {
	name string
	sql  string
	as   func(any) (any, error) // from what SQLite gives to what a sink takes
}

var opsTables = map[string]opsTable{
	"ops.runs": {
		from: `runs`, id: `id`,
		last: `SELECT coalesce((SELECT min(id) - 1 FROM runs WHERE ` + mayGoOn + `), (SELECT max(id) FROM runs), 0)`,
		columns: []opsColumn{
			{"id", `id`, plain}, {"run_id", `run`, text}, {"job", `job`, text}, {"trigger", `cause`, text},
			{"due_at", `due`, moment}, {"started_at", `started`, moment}, {"ended_at", `ended`, moment}, {"status", `status`, text},
			{"pages", `pages`, plain}, {"hits", `hits`, plain}, {"new_hits", `new_hits`, plain}, {"rows", `row_counts`, counts},
			{"requests", `requests`, plain}, {"credits", `credits`, plain}, {"refunded", `refunded`, plain},
			{"missing", `missing`, plain}, {"failures", `failures`, plain}, {"waited_s", `waited`, seconds},
			{"error", `error`, text}, {"config_hash", `config`, text},
		},
	},
	"ops.searches": {
		from: `steps JOIN runs r USING (run)`, id: `steps.id`,
		last: `SELECT coalesce((SELECT min(s.id) - 1 FROM steps s JOIN runs USING (run) WHERE ` + mayGoOn + `),
			(SELECT max(id) FROM steps), 0)`,
		columns: []opsColumn{
			{"id", `steps.id`, plain}, {"run_id", `steps.run`, text}, {"job", `r.job`, text}, {"item", `steps.item`, text}, {"operation", `steps.op`, text},
			{"queries", `steps.queries`, texts}, {"seeds", `steps.seeds`, texts}, {"filters", `steps.params`, filters},
			{"window_from", `steps.params`, parameterTime("publishedAtFrom")}, {"window_to", `steps.params`, parameterTime("publishedAtTo")},
			{"total", `nullif(steps.total, -1)`, plain}, {"pages", `steps.pages`, plain}, {"hits", `steps.hits`, plain}, {"new_hits", `steps.new_hits`, plain},
			{"stop_reason", `steps.stop`, text}, {"credits", stepCredits, plain},
			{"reused", `steps.reused`, plain}, {"began_at", `steps.began`, moment}, {"left_pages", `nullif(steps.left_pages, -1)`, plain},
		},
	},
	"ops.requests": {
		from: `(SELECT * FROM attempts WHERE adjustment IS NULL)`, id: `id`,
		last: lastAttempt,
		columns: []opsColumn{
			{"id", `id`, plain}, {"run_id", `run`, text}, {"job", `job`, text}, {"operation", `op`, text}, {"entity", `entity`, text},
			{"parameters", `params`, parameters}, {"page_from", `page_from`, plain}, {"page_size", `page_size`, plain},
			{"page_total", `page_total`, plain}, {"attempt", `attempt`, plain}, {"sent_at", `sent_at`, moment},
			{"answered_at", `settled_at`, moment}, {"waited_s", `waited`, seconds}, {"http_status", `nullif(http_status, 0)`, plain},
			{"outcome", `iif(state IN ('reserved', 'sending'), '', state)`, text}, {"bytes", `bytes`, plain}, {"response_id", `response`, plain},
		},
	},
	"ops.credits": {
		from: `(SELECT * FROM attempts WHERE price > 0 OR adjustment IS NOT NULL)`, id: `id`,
		last: lastAttempt,
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
		from: `limits`, id: `id`,
		last: `SELECT coalesce(max(id), 0) FROM limits`,
		columns: []opsColumn{
			{"id", `id`, plain}, {"observed_at", `observed_at`, moment}, {"max_requests", `max_requests`, plain}, {"window_s", `window`, seconds},
			{"remaining", `remaining`, plain}, {"reset_at", `reset_at`, moment}, {"foreign_requests", `foreign_requests`, plain},
		},
	},
}

// lastAttempt: an attempt is final once it is settled, but for one that an operator
// has still to explain (see [Store.SettleScan]), and for one of a run under way whose
// request may still be answered. What explains it after that run is told by the state
// alone: rows must not be told again for ever.
const lastAttempt = `SELECT coalesce((SELECT min(id) - 1 FROM (
		SELECT id FROM attempts WHERE state IN ('reserved', 'sending')
		UNION ALL
		SELECT a.id FROM runs JOIN attempts a USING (run)
			WHERE runs.status = 'running' AND a.price > 0 AND a.state = 'unknown' AND a.response IS NULL
		UNION ALL
		SELECT a.id FROM scans s JOIN attempts a ON a.intent = s.id WHERE s.state = 'unknown' AND a.state = 'unknown')),
	(SELECT max(id) FROM attempts), 0)`

// capInForce is a field of the cap of one scope, as it was at the reservation.
func capInForce(field, scope string) string {
	return fmt.Sprintf(`(SELECT value ->> '%s' FROM json_each(caps) WHERE value ->> 'scope' = '%s')`, field, scope)
}

// Ops are the rows of an operations table with an id above after, in order of id,
// durable when Ops returns. Rows up to the mark are final; later ones may change
// and are told again. Values are nil, int64, float64, string, time.Time, []string or map[string]int64.
func (s *Store) Ops(table string, after int64) (rows [][]any, columns []string, mark int64, err error) {
	t, ok := opsTables[table]
	if !ok {
		return nil, nil, 0, fmt.Errorf("there is no operations table %q", table)
	}
	if err := s.Flush(); err != nil {
		return nil, nil, 0, err
	}
	err = s.view(func() error {
		if err := s.row(t.last).Scan(&mark); err != nil {
			return err
		}
		rows, err = t.rows(s, after)
		return err
	})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("read %s: %w", table, err)
	}
	for _, c := range t.columns {
		columns = append(columns, c.name)
	}
	return rows, columns, mark, nil
}

func (t opsTable) query() string {
	var expressions []string
	for _, c := range t.columns {
		expressions = append(expressions, c.sql)
	}
	return fmt.Sprintf(`SELECT %s FROM %s WHERE %s > ? ORDER BY %s`, strings.Join(expressions, ", "), t.from, t.id, t.id)
}

func (t opsTable) rows(s *Store, after int64) ([][]any, error) {
	rows, err := list(s, func(row *[]any) []any {
		*row = make([]any, len(t.columns))
		into := make([]any, len(t.columns))
		for i := range into {
			into[i] = &(*row)[i]
		}
		return into
	}, t.query(), after)
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
		return instant(us), nil
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
