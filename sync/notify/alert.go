package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"outlierd/sync/job"
	"outlierd/sync/store"
)

// Questions runs the SQL of alerts and of reports that are due, and puts what it finds in the outbox. If one
// fails, that is logged, and the others still run. A failure that repeats is logged once.
type Questions struct {
	Watcher *Watcher
	Store   *store.Store
	Log     *slog.Logger

	// SQL returns the SQL of a report, which may name a view that people have changed since.
	SQL func(*job.Report) (string, error)

	// Ask runs a query and returns the first column of its result, as text.
	Ask func(ctx context.Context, sql string) ([]string, error)

	failed map[string]string // last logged failure, by the kind and the name of the question
}

// EvaluateAlerts runs every alert once.
func (q *Questions) EvaluateAlerts(ctx context.Context) {
	for _, alert := range q.Watcher.config.Alerts {
		q.answer(ctx, Alert, alert.Name, func(ctx context.Context) error { return q.evaluateAlert(ctx, alert) })
	}
}

// answer answers a question, and logs why it has no answer. If ctx ends at some time, a question has half of the time
// that is left, so that slow SQL leaves some to the others and to what delivers the answers.
func (q *Questions) answer(ctx context.Context, kind Kind, name string, do func(context.Context) error) {
	if end, ends := ctx.Deadline(); ends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	err := do(ctx)
	question := string(kind) + " " + name
	switch {
	case err == nil:
		delete(q.failed, question)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		q.Log.Warn(string(kind)+" not evaluated", string(kind), name,
			"err", "its SQL takes longer than a command waits for notifications; `outlierd up` gives it 30 s")
	case ctx.Err() != nil: // the next process asks
	case q.failed[question] != err.Error():
		if q.failed == nil {
			q.failed = map[string]string{}
		}
		q.failed[question] = err.Error()
		q.Log.Warn(string(kind)+" failed", string(kind), name, "err", err)
	}
}

func (q *Questions) evaluateAlert(ctx context.Context, alert job.Alert) error {
	rows, _, err := firstRows(ctx, alert.SQL, alert.Key, math.MaxInt32, q.Ask)
	if err != nil {
		return err
	}
	return q.Store.Update(func(tx *store.Tx) error {
		// If the SQL or the key has changed, no row was seen before.
		subject, definition := "alert/"+alert.Name, idOf(append([]string{alert.SQL}, alert.Key...)...)
		known, _, err := lastState(tx, subject)
		if err != nil {
			return err
		}
		if known == definition {
			fresh, err := recordRows(tx, alert, rows)
			return errors.Join(err, q.Watcher.putEvents(tx, alert.Notify, alertEvents(alert, definition, tx.Now(), fresh)...))
		}
		err = tx.Exec(`DELETE FROM alert_rows WHERE alert = ?`, alert.Name)
		_, failed := recordRows(tx, alert, rows)
		return errors.Join(err, failed, setState(tx, subject, definition))
	})
}

// recordRows records the rows of an alert's result, and returns those that were not seen before. Of several rows with
// one key, the first one counts. The cost depends on the rows of the result, not on the number of rows ever seen.
func recordRows(tx *store.Tx, alert job.Alert, rows []keyed) (fresh []keyed, err error) {
	for _, r := range rows {
		added, err := tx.Change(`INSERT INTO alert_rows (alert, key, seen) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			alert.Name, r.hash, store.Micros(tx.Now()))
		if err != nil {
			return nil, err
		}
		if added > 0 {
			fresh = append(fresh, r)
		}
	}
	return fresh, nil
}

// alertEvents returns the events of new rows of an alert.
func alertEvents(alert job.Alert, definition string, now time.Time, fresh []keyed) (events []Event) {
	for some := range slices.Chunk(fresh, MaxRows) {
		e := Event{Kind: Alert, Alert: alert.Name, Time: now}
		parts := []string{string(Alert), alert.Name, definition}
		for _, r := range some {
			parts, e.Rows = append(parts, r.hash), append(e.Rows, r.Row)
		}
		e.ID, e.Title = idOf(parts...), fmt.Sprintf("%s: %d new rows", cmp.Or(alert.About, alert.Name), len(some))
		if len(some) == 1 {
			e.Title = fmt.Sprintf("%s: %s", cmp.Or(alert.About, alert.Name), cmp.Or(some[0].Title, "1 new row"))
		}
		events = append(events, e)
	}
	return events
}

// keyed is a row with the hash of its key.
type keyed struct {
	Row
	hash string
}

// readRow reads a row that DuckDB wrote as JSON. Its title is the column title, its link the
// column link or that of its video.
func readRow(text string, key []string) (keyed, error) {
	d := json.NewDecoder(strings.NewReader(notFinite.ReplaceAllStringFunc(text, quoteNumber)))
	d.UseNumber()
	values := map[string]any{}
	if err := d.Decode(&values); err != nil {
		return keyed{}, fmt.Errorf("read a row of the result: %w", err)
	}
	lower := map[string]any{}
	for name, value := range values {
		lower[strings.ToLower(name)] = value
	}
	k := keyed{Row: Row{Values: values}}
	k.Title, _ = lower["title"].(string)
	if k.Link, _ = lower["link"].(string); k.Link == "" {
		if id, _ := lower["video_id"].(string); videoID.MatchString(id) {
			k.Link = "https://youtu.be/" + id
		}
	}
	var parts []string
	for _, column := range key {
		value, there := lower[column]
		if !there {
			return keyed{}, fmt.Errorf("the SQL returns no column %s, which key names", column)
		}
		part, err := json.Marshal(value)
		if err != nil {
			return keyed{}, err
		}
		parts = append(parts, string(part))
	}
	k.hash = idOf(parts...)
	return k, nil
}

// notFinite matches what DuckDB writes for numbers that JSON does not have, such as the quotient by 0. It
// also matches whole texts, so that the same words within a text are left alone.
var notFinite = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|NaN|-?Infinity`)

// quoteNumber returns a match of notFinite as JSON: numbers become the texts that `outlierd sql` shows.
func quoteNumber(match string) string {
	switch match {
	case "NaN":
		return `"nan"`
	case "Infinity":
		return `"inf"`
	case "-Infinity":
		return `"-inf"`
	}
	return match
}

var videoID = regexp.MustCompile(`^[A-Za-z0-9_-]{11}$`)
