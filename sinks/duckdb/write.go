//go:build duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

// Write implements [sinks.Sink].
func (s *Sink) Write(ctx context.Context, b sinks.Batch) error {
	tried := false
	err := s.withRoom(func() error {
		if tried { // a failed COMMIT may still have taken effect
			if mark, err := s.Watermark(ctx); err != nil || mark == b.Hi {
				return err
			}
		}
		tried = true
		return s.write(ctx, b)
	})
	if err == nil {
		err = s.withRoom(func() error { return s.fold(ctx) })
	}
	if database.Damaged(err) {
		err = errors.Join(err, s.giveUp(err))
	}
	return err
}

// fold checkpoints the private file if its log is long, and releases the memory that the batch took.
func (s *Sink) fold(ctx context.Context) error {
	in, err := s.instance(ctx)
	if err != nil {
		return err
	}
	if log, err := os.Stat(s.options.Private + ".wal"); err == nil && log.Size() >= s.longLog() {
		if in.checkpoints++; in.checkpoints < maxCheckpoints {
			return s.detach(ctx)
		}
		return s.settle(ctx)
	}
	if err := in.db.Release(ctx); err != nil {
		return s.abandon(err)
	}
	return nil
}

func (s *Sink) write(ctx context.Context, b sinks.Batch) error {
	if err := s.restore(ctx); err != nil {
		return err
	}
	mark, err := s.Watermark(ctx)
	if err != nil {
		return err
	}
	if b.Lo != mark {
		return fmt.Errorf("batch (%d, %d] does not follow watermark %d of %s", b.Lo, b.Hi, mark, s.options.Private)
	}
	s.dirty = true
	var changes []*change
	defer func() {
		for _, c := range changes {
			c.release()
		}
	}()
	for _, part := range b.Parts {
		c, err := s.change(ctx, part, b.Lo == 0)
		if c != nil {
			changes = append(changes, c)
		}
		if err != nil {
			return s.abandon(fmt.Errorf("table %s: %w", part.Table.Name, err))
		}
	}
	if err := s.commit(ctx, b, changes); err != nil {
		return s.abandon(err)
	}
	return nil
}

func (s *Sink) commit(ctx context.Context, b sinks.Batch, changes []*change) error {
	if _, err := s.in.db.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	for _, c := range changes {
		if err := c.apply(ctx, s.in); err != nil {
			return fmt.Errorf("table %s: %w", c.table.Name, err)
		}
	}
	if err := s.in.moveMark(ctx, database.Journal, b.Lo, b.Hi); err != nil {
		return err
	}
	if _, err := s.in.db.Exec(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("commit answers %d to %d: %w", b.Lo+1, b.Hi, err)
	}
	return nil
}

// moveMark moves a mark, in the same transaction as the rows that it covers.
func (in *instance) moveMark(ctx context.Context, mark string, from, to int64) error {
	n, err := in.db.Exec(ctx, fmt.Sprintf("UPDATE warehouse.outlierd.marks SET id = %d WHERE name = %s "+
		"AND id = %d", to, database.Text(mark), from))
	if err == nil && n != 1 {
		err = fmt.Errorf("it is not %d", from)
	}
	if err != nil {
		return fmt.Errorf("move mark %s to %d: %w", mark, to, err)
	}
	return nil
}

// change is the effect of one part on its table: rows to delete and rows to insert.
type change struct {
	table *schema.Table
	rows  string // view of the rows to insert; "" if there are none
	count int64  // number of rows to insert
	old   string // view of the identities whose rows are replaced; "" if no such rows can exist
	gone  string // view of the identities whose rows are deleted without replacement; "" if none can exist
	free  []func()
}

func (c *change) release() {
	for _, free := range c.free {
		free()
	}
}

// change folds a part with [sinks.Fold] and registers the resulting rows as views of the instance. That
// must happen before the transaction. In the first batch, no row can replace another.
func (s *Sink) change(ctx context.Context, part schema.Part, first bool) (*change, error) {
	rows, gone, err := sinks.Fold(ctx, part)
	if err != nil {
		return nil, err
	}
	defer rows.Release()
	c := &change{table: part.Table}
	if gone != nil {
		defer gone.Release()
		if err := s.offerGone(ctx, c, "gone_"+part.Table.FileName(), gone); err != nil {
			return c, err
		}
	}
	if part.Table.Kind == schema.Changes {
		if rows, err = s.changed(ctx, part.Table, rows); err != nil {
			return c, err
		}
		defer rows.Release()
	}
	if c.count = rows.NumRows(); c.count == 0 {
		return c, nil
	}
	old, err := s.replaced(ctx, part.Table, rows)
	if err != nil {
		return c, err
	}
	if old != nil {
		defer old.Release()
	}
	if old != nil && !first {
		if c.old, err = c.offer(s.in, "old_"+part.Table.FileName(), old); err != nil {
			return c, err
		}
	}
	c.rows, err = c.offer(s.in, "rows_"+part.Table.FileName(), rows)
	return c, err
}

// offerGone registers the identities of gone that may have rows in the table.
func (s *Sink) offerGone(ctx context.Context, c *change, view string, gone arrow.RecordBatch) error {
	memory, err := s.memory(ctx, c.table)
	if err != nil {
		return err
	}
	known := memory.Known(gone)
	if len(known) == 0 {
		return nil
	}
	some, err := sinks.Pick(ctx, gone, known)
	if err != nil {
		return err
	}
	defer some.Release()
	c.gone, err = c.offer(s.in, view, some)
	return err
}

func (c *change) offer(in *instance, view string, rows arrow.RecordBatch) (string, error) {
	release, err := in.db.Offer(view, rows)
	if err != nil {
		return "", err
	}
	c.free = append(c.free, release)
	return view, nil
}

// changed returns the rows that differ from the last row of their key.
func (s *Sink) changed(ctx context.Context, t *schema.Table, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	memory := s.changes[t]
	if memory == nil {
		memory = sinks.NewChanges(t)
		err := s.in.db.Records(ctx, "SELECT * FROM "+database.TableName(t)+" ORDER BY rowid",
			func(old arrow.RecordBatch) { memory.Add(old) })
		if err != nil {
			return nil, fmt.Errorf("read the rows kept last: %w", err)
		}
		s.changes[t] = memory
	}
	return sinks.Pick(ctx, rows, memory.Add(rows))
}

// replaced returns the distinct identities of rows that may have older rows in the table; nil if there
// are none, and for tables that only grow.
func (s *Sink) replaced(ctx context.Context, t *schema.Table, rows arrow.RecordBatch) (arrow.RecordBatch, error) {
	switch t.Kind {
	case schema.Current:
		if memory := s.parents[t]; memory != nil {
			memory.Add(rows)
		}
		return sinks.Project(rows, t.Key), nil
	case schema.Children, schema.Once:
		memory, err := s.memory(ctx, t)
		if err != nil {
			return nil, err
		}
		again := memory.Add(rows)
		if len(again) == 0 {
			return nil, nil
		}
		parents := sinks.Project(rows, t.Key[:1])
		defer parents.Release()
		return sinks.Pick(ctx, parents, again)
	}
	return nil, nil
}

// memory returns the identities that have rows in a table.
func (s *Sink) memory(ctx context.Context, t *schema.Table) (*sinks.Parents, error) {
	if s.parents[t] == nil {
		memory := sinks.NewParents(t)
		identities := "SELECT DISTINCT " + list("", t.Identity()) + " FROM " + database.TableName(t)
		err := s.in.db.Records(ctx, identities, func(old arrow.RecordBatch) { memory.Add(old) })
		if err != nil {
			return nil, fmt.Errorf("read the identities: %w", err)
		}
		s.parents[t] = memory
	}
	return s.parents[t], nil
}

// apply runs the change inside the transaction. It copies the few identities to delete into a table: a
// view could be read only once, and the planner would not know that they are few. Rows to insert are
// never copied.
func (c *change) apply(ctx context.Context, in *instance) error {
	if c.gone != "" {
		if _, err := in.db.Exec(ctx, c.clear()); err != nil {
			return err
		}
	}
	if c.rows == "" {
		return nil
	}
	replaced := int64(0)
	if c.old != "" {
		var err error
		if replaced, err = in.db.Exec(ctx, c.remove()); err != nil {
			return err
		}
	}
	n, err := in.db.Exec(ctx, c.insert(replaced > 0))
	if err != nil {
		return err
	}
	if n != c.count {
		return fmt.Errorf("%d of %d rows were inserted", n, c.count)
	}
	if c.old != "" {
		_, err = in.db.Exec(ctx, "DROP TABLE temp.old; DROP TABLE temp.gone")
	}
	return err
}

// clear returns the SQL that deletes the rows of the identities in c.gone.
func (c *change) clear() string {
	return fmt.Sprintf(`CREATE TEMP TABLE gone AS SELECT * FROM %s;
		DELETE FROM %s WHERE rowid IN (SELECT t.rowid FROM %[2]s AS t JOIN temp.gone AS g ON %s);
		DROP TABLE temp.gone`,
		c.gone, database.TableName(c.table), same("t.", "g.", c.table.Identity()))
}

// remove returns the SQL that deletes the replaced rows. It keeps in temp.old what the new rows take over
// from them.
func (c *change) remove() string {
	identity := c.table.Identity()
	carried := "t.rowid AS place"
	if c.table.Kind == schema.Current {
		carried += ", t.first_seen_at, t.times_seen, " + list("t.", identity)
		if grows := c.table.Grows; grows != "" {
			carried += ", t.last_seen_at, t.previous_seen_at, " + list("t.", []string{grows, c.table.Previous()})
		}
	}
	return fmt.Sprintf(`CREATE TEMP TABLE gone AS SELECT * FROM %s;
		CREATE TEMP TABLE old AS SELECT %s FROM %s AS t JOIN temp.gone AS g ON %s;
		DELETE FROM %[3]s WHERE rowid IN (SELECT place FROM temp.old)`,
		c.old, carried, database.TableName(c.table), same("t.", "g.", identity))
}

// insert returns the SQL that inserts the rows. If some of them replace others, they take over what temp.old
// has kept of these.
func (c *change) insert(replacing bool) string {
	var names []string
	for _, f := range c.table.Stored().Fields() {
		names = append(names, f.Name)
	}
	into := fmt.Sprintf("INSERT INTO %s (%s) SELECT ", database.TableName(c.table), list("", names))
	if c.table.Kind != schema.Current || !replacing {
		return into + list("", names) + " FROM " + c.rows
	}
	declared := names[:len(c.table.Schema().Fields())]
	return into + list("r.", declared) + `, coalesce(old.first_seen_at, r.first_seen_at), r.last_seen_at, r.times_seen + coalesce(old.times_seen, 0)
		` + c.previous() + " FROM " + c.rows + " AS r LEFT JOIN temp.old ON " + same("r.", "old.", c.table.Key)
}

// previous returns the SQL values of previous_seen_at and its like, as [sinks.Fold] computes them.
func (c *change) previous() string {
	if c.table.Grows == "" {
		return ""
	}
	const day = "// 86400000000"
	either := `, CASE WHEN r.previous_seen_at IS NOT NULL THEN r.%s
		WHEN epoch_us(old.last_seen_at) ` + day + ` < epoch_us(r.first_seen_at) ` + day + ` THEN old.%s ELSE old.%s END`
	previous := c.table.Previous()
	return fmt.Sprintf(either, schema.PreviousSeenAt, sinks.LastSeenAt, schema.PreviousSeenAt) +
		fmt.Sprintf(either, database.Name(previous), database.Name(c.table.Grows), database.Name(previous))
}

func list(of string, names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = of + database.Name(n)
	}
	return strings.Join(quoted, ", ")
}

func same(a, b string, names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = a + database.Name(n) + " IS NOT DISTINCT FROM " + b + database.Name(n)
	}
	return strings.Join(quoted, " AND ")
}
