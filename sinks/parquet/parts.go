package parquet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"outlierd/schema"
	"outlierd/sinks"
	"outlierd/sinks/duckdb/database"
)

// limit is how much a part may hold, if more than one answer is in it. A publication writes a part with a
// changed row again, so its cost depends on this.
type limit struct {
	rows  int64
	bytes int64 // of values before compression
}

var defaultLimit = limit{rows: 50_000, bytes: 4 << 20}

// part is the rows of a table with placing numbers from lo up to next, in one folder.
type part struct {
	table  *schema.Table
	folder string // "outliers", or of a dated table "outliers_history/date=2026-03-01"
	lo     int64
	next   int64 // lo of the next part of the folder; math.MaxInt64 for the last one
	first  bool  // also has the rows with lower numbers, if there are any
}

// isDated reports whether a table has a folder for each day of observation. Rows of other tables are
// replaced by rows of another day, or have no day.
func isDated(t *schema.Table) bool {
	return t.Placing() == sinks.ResponseID && t.Stored().HasField(sinks.ObservedAt)
}

// dayOf is the SQL of the folder of a row below the table's folder. A row without a time is in 1970.
func dayOf(t *schema.Table) string {
	if isDated(t) {
		return "'date=' || strftime(coalesce(observed_at, TIMESTAMPTZ 'epoch'), '%Y-%m-%d')"
	}
	return "''"
}

// where returns the SQL condition of the part's rows.
func (p part) where() string {
	placing, all := database.Name(p.table.Placing()), []string{"true"}
	if !p.first {
		all = append(all, fmt.Sprintf("%s >= %d", placing, p.lo))
	}
	if p.next < math.MaxInt64 {
		all = append(all, fmt.Sprintf("%s < %d", placing, p.next))
	}
	if day, ok := strings.CutPrefix(path.Base(p.folder), "date="); ok {
		date, _ := time.Parse(time.DateOnly, day) // of a folder of ours
		within := fmt.Sprintf("observed_at >= TIMESTAMPTZ '%s 00:00:00+00' AND observed_at < TIMESTAMPTZ '%s 00:00:00+00'",
			day, date.AddDate(0, 0, 1).Format(time.DateOnly))
		if date.Unix() == 0 {
			within += " OR observed_at IS NULL"
		}
		all = append(all, "("+within+")")
	}
	return strings.Join(all, " AND ")
}

// partsOf returns the parts of a folder by the numbers that they begin with, in ascending order.
func partsOf(t *schema.Table, folder string, los []int64) (parts []part) {
	for i, lo := range los {
		next := int64(math.MaxInt64)
		if i+1 < len(los) {
			next = los[i+1]
		}
		parts = append(parts, part{t, folder, lo, next, i == 0})
	}
	return parts
}

// partAt returns the index of the part with the rows of a placing number.
func partAt(los []int64, placing int64) int {
	i, found := slices.BinarySearch(los, placing)
	if !found {
		i--
	}
	return max(i, 0)
}

// weight is the number of rows with a placing number, and of the bytes in them.
type weight struct{ placing, rows, bytes int64 }

// cutRows divides rows, in the order of their numbers, and returns the numbers with which parts begin. The
// rows up to the number published stay together: another division would move keys from one part to
// another, and a reader who opens one of them before and the other after that finds them twice.
func (l limit) cutRows(all []weight, published int64) (los []int64) {
	var rows, bytes int64
	for i, w := range all {
		if i == 0 || w.placing > published && (rows+w.rows > l.rows || bytes+w.bytes > l.bytes) {
			los, rows, bytes = append(los, w.placing), 0, 0
		}
		rows, bytes = rows+w.rows, bytes+w.bytes
	}
	return los
}

// weighRows returns the weights of a part's rows.
func weighRows(ctx context.Context, db *database.DB, p part) (all []weight, err error) {
	rows, err := db.Query(ctx, fmt.Sprintf("SELECT %[1]s, count(*), sum(%[2]s)::BIGINT FROM %[3]s WHERE %[4]s GROUP BY 1 ORDER BY 1",
		database.Name(p.table.Placing()), bytesOf(p.table), database.TableName(p.table), p.where()))
	for _, r := range rows {
		all = append(all, weight{r[0].(int64), r[1].(int64), r[2].(int64)})
	}
	return all, err
}

// sizeOf returns the weight of all rows of a part, with the highest of their numbers.
func (w *writer) sizeOf(ctx context.Context, p part) (size weight, err error) {
	all := w.weights
	if p.folder != w.weighed.folder || p.lo < w.weighed.lo {
		all, err = weighRows(ctx, w.db, p)
	}
	size.placing = p.lo
	for _, r := range all {
		if r.placing < p.next && (p.first || r.placing >= p.lo) {
			size = weight{max(size.placing, r.placing), size.rows + r.rows, size.bytes + r.bytes}
		}
	}
	return size, err
}

// bytesOf is the SQL of about the number of bytes in a row: of texts their length, of pictures 100 each, of other
// values 8. To convert pictures to text would take as long as to write them.
func bytesOf(t *schema.Table) string {
	fixed, texts, lengths := 0, []string{"''"}, []string{}
	for _, c := range t.All() {
		name, sqlType := database.Name(c.Name), c.SQLType()
		switch {
		case sqlType == "VARCHAR", sqlType == "JSON":
			texts = append(texts, name)
		case sqlType == "VARCHAR[]":
			texts = append(texts, "array_to_string("+name+", '')")
		case strings.HasSuffix(sqlType, "[]"):
			lengths = append(lengths, "coalesce(100 * len("+name+"), 0)")
		case strings.HasPrefix(sqlType, "STRUCT("):
			fixed += 300 // three sizes of a picture
		default:
			fixed += 8
		}
	}
	// One function of all texts takes less time to plan than one of each.
	return strings.Join(append(lengths, "strlen(concat("+strings.Join(texts, ", ")+"))", fmt.Sprint(fixed)), " + ")
}

// copyFrom returns the SELECT and the settings of the files of a table, in the syntax of COPY. Equal rows
// become equal files: they are sorted by the order in which readers look for them, and then by key.
func (o Options) copyFrom(t *schema.Table, where string) (query, settings string) {
	var values, ids []string
	for _, c := range t.All() {
		name := database.Name(c.Name)
		if ids = append(ids, fmt.Sprintf("%s: %d", name, fieldID(c.Name))); c.JSON {
			values = append(values, name+"::VARCHAR AS "+name)
		} else {
			values = append(values, name)
		}
	}
	if o.Constant.Name != "" {
		values = append(values, database.Text(o.Constant.Value)+" AS "+database.Name(o.Constant.Name))
	}
	numbers := "{" + strings.Join(ids, ", ") + "}"
	if o.FieldIDs != nil {
		numbers = o.FieldIDs(t)
	}
	order := []string{database.Name(t.Placing())}
	for _, column := range t.Key {
		order = append(order, database.Name(column))
	}
	query = fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY %s, rowid", strings.Join(values, ", "),
		database.TableName(t), where, strings.Join(order, ", "))
	return query, "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, USE_TMP_FILE false, FIELD_IDS " + numbers
}

// fieldID returns the field id of a column, which engines such as those of Iceberg use. It is a hash of
// the column's name, so it does not change when other columns are added or removed.
func fieldID(name string) int { return int(crc32.ChecksumIEEE([]byte(name)) >> 1) }

// formOf returns a digest that changes when other columns are declared, or files are written in another way.
func (o Options) formOf(t *schema.Table) string {
	query, settings := o.copyFrom(t, "true")
	types := t.Stored().String()
	sum := sha256.Sum256([]byte(query + settings + types))
	return hex.EncodeToString(sum[:8])
}

// groupRows returns the number of rows in a row group, which is in memory while it is written, for rows of that size
// together. DuckDB writes groups of at least 2048 rows.
func groupRows(all weight) int64 {
	return min(defaultLimit.rows, max(2048, all.rows*defaultLimit.bytes/max(all.bytes, 1)))
}
