package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Micros returns a time as it is stored: microseconds since 1970, and 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Instant is the inverse of [Micros], in UTC.
func Instant(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// Time returns t as a column; see [Micros].
func Time(t *time.Time) Column {
	return integer{func() any { return Micros(*t) }, func(us int64) { *t = Instant(us) }}
}

// Duration returns d as a column, in microseconds.
func Duration(d *time.Duration) Column {
	return integer{func() any { return d.Microseconds() }, func(us int64) { *d = time.Duration(us) * time.Microsecond }}
}

// Optional returns an id as a column that is NULL for 0.
func Optional(id *int64) Column {
	return integer{func() any {
		if *id == 0 {
			return nil
		}
		return *id
	}, func(n int64) { *id = n }}
}

// Seconds is a duration that is a number of seconds in JSON.
type Seconds struct{ time.Duration }

func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(s.Seconds()) }

// JSON returns a variable as a column with its JSON.
func JSON(v any) Column { return jsonColumn{v} }

// Column is a variable that SQLite has in another form. It can be read and written.
type Column interface {
	Scan(any) error
	driver.Valuer
}

// integer is a variable of which SQLite has an integer. NULL is read as 0.
type integer struct {
	get func() any
	set func(int64)
}

func (c integer) Scan(v any) error {
	n, ok := v.(int64)
	if !ok && v != nil {
		return fmt.Errorf("%T is not an integer", v)
	}
	c.set(n)
	return nil
}

func (c integer) Value() (driver.Value, error) { return c.get(), nil }

type jsonColumn struct{ v any }

func (c jsonColumn) Scan(v any) error {
	switch text := v.(type) {
	case string:
		return json.Unmarshal([]byte(text), c.v)
	case []byte:
		return json.Unmarshal(text, c.v)
	}
	return fmt.Errorf("%T is not JSON", v)
}

func (c jsonColumn) Value() (driver.Value, error) {
	text, err := json.Marshal(c.v)
	return string(text), err
}

// Known returns nil for a negative number, which means "unknown".
func Known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// Cell is a value of the table meta under its key, as JSON.
type Cell[T any] struct{ Key string }

// Get returns the value; the zero value if none is set.
func (c Cell[T]) Get(in Reader) (value T, err error) {
	if _, err = Scan(in, []any{JSON(&value)}, `SELECT value FROM meta WHERE key = ?`, c.Key); err != nil {
		err = fmt.Errorf("read %q: %w", c.Key, err)
	}
	return value, err
}

// Set sets the value.
func (c Cell[T]) Set(in Writer, value T) error {
	return in.Exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value
		WHERE value <> excluded.value`,
		c.Key, JSON(&value))
}

// Cells returns the values of all cells whose keys have a prefix, by the rest of the key.
func Cells[T any](in Reader, prefix string) (map[string]T, error) {
	type cell struct {
		key   string
		value T
	}
	found, err := List(in, func(c *cell) []any { return []any{&c.key, JSON(&c.value)} },
		`SELECT substr(key, length(?1) + 1), value FROM meta WHERE substr(key, 1, length(?1)) = ?1`, prefix)
	all := map[string]T{}
	for _, c := range found {
		all[c.key] = c.value
	}
	return all, err
}

// Clear removes the value.
func (c Cell[T]) Clear(in Writer) error { return in.Exec(`DELETE FROM meta WHERE key = ?`, c.Key) }

// maxText is the maximum length in bytes of a stored text that others wrote.
const maxText = 500

// Bounded returns text cut to the maximum length of stored texts. It remains valid UTF-8.
func Bounded(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "")
}
