package schema

import (
	"fmt"
	"slices"
	"strings"
)

const preface = `# Tables

All tables of outlierd. DuckDB and Parquet have the same tables. This page is generated from the declarations in
package schema by ` + "`" + `go test ./schema -update` + "`" + `.

## Kinds of tables

- **current**: one row per key, the last observation, with ` + "`" + `first_seen_at` + "`" + `, ` + "`" + `last_seen_at` + "`" + ` and ` + "`" + `times_seen` + "`" + ` added.
  For a number that grows, the row also has its value on an earlier day, such as ` + "`" + `previous_view_count` + "`" + `.
- **history**: every observation, append-only.
- **changes**: a history without the rows in which only the lineage differs from the key's last row.
- **children**: the rows of a parent, replaced as a whole when the parent is observed again.
- **once**: fetched once and appended; if it is fetched again, its rows are replaced.
- **log**: append-only.

## Values

**Paths.** A path such as ` + "`" + `snippet.title` + "`" + ` starts at the row's JSON object, ` + "`" + `../id` + "`" + ` at the object that contains the rows, and
` + "`" + `/time` + "`" + ` at the whole answer. ` + "`" + `*[]` + "`" + ` stands for the elements of an answer of any shape. A column without a path is computed or
comes from the journal.

**NULL.** A value that is absent, null, NaN, Infinity or unreadable is NULL, never zero. ` + "`" + `fields_missing` + "`" + ` lists the
columns whose field the answer does not have, which tells absent from null.

**Types.** A value of another type is converted if nothing is lost (` + "`" + `"5"` + "`" + ` and ` + "`" + `5.0` + "`" + ` are 5). Otherwise the column is NULL and
the original is in ` + "`" + `extra` + "`" + `, together with fields that the interface does not have. A repeated name in ` + "`" + `extra` + "`" + ` has a number:
` + "`" + `title#2` + "`" + `. transcript_events has no ` + "`" + `extra` + "`" + `: such values are only in the journal.

**Text.** NUL characters are kept. Unpaired surrogates and bytes that are not UTF-8 become U+FFFD, and ` + "`" + `outlierd schema
drift` + "`" + ` lists fields with such bytes ("not UTF-8").

**Size.** A value has at most 1 MiB (1,048,576 bytes). A longer text is cut and ends in ` + "`" + `… [cut from 5242880 bytes]` + "`" + `.
Longer JSON is replaced by a text with its beginning and the same mark. A longer list loses its last elements.
` + "`" + `outlierd schema drift` + "`" + ` lists the fields ("too large"), and the journal has the whole answer.

**Ids.** An id is any text or number that is not blank, has no control characters and at most 256 bytes. There is no row for an
item without an id, for one that is not an object although it should be, and for one with an unknown value that is nested more
than 100 levels deep. The journal still has it. A warning reports it the first time, and ` + "`" + `outlierd schema drift` + "`" + ` counts it as
"missing", "not an object" or "nested too deeply".

**Duplicates.** A key has one row in a current table, and one row per answer in a history. If an answer lists an item
twice, such as a video under the same id or a comment that is equal in every field, only the first makes a row. The journal
has both, and ` + "`" + `outlierd schema drift` + "`" + ` counts them as "twice".

**Upgrades.** When a new version opens a table of an earlier one, it adds new columns and new tables. New columns are NULL in
existing rows, and a new history is empty, until ` + "`" + `outlierd rebuild` + "`" + ` reads the journal again.
`

// Markdown returns the reference of all tables, the content of docs/tables.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString("\n## Data tables\n")
	for _, t := range Tables() {
		t.describe(&b)
	}
	b.WriteString("\n## Operations tables\n\nSchema `ops` in DuckDB; in Parquet folders `ops_runs` and so on. " +
		"Rows are numbered by `id`.\n")
	for _, t := range OpsTables() {
		t.describe(&b)
	}
	return b.String()
}

func (t *Table) describe(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", t.Name, t.Comment)
	fmt.Fprintf(b, "Kind: %s. Key: %s.", t.Kind, strings.Join(t.Key, ", "))
	if t.History != nil {
		fmt.Fprintf(b, " Every observation is in %s.", t.History.Name)
	}
	var places []string
	for _, p := range t.Rows {
		place := strings.Replace("`"+p.Path+"`", "``", "the whole answer", 1)
		places = append(places, fmt.Sprintf("%s of %s", place, p.Op))
	}
	if len(places) > 0 {
		b.WriteString(" Rows: " + strings.Join(places, "; ") + ".")
	}
	b.WriteString("\n\n| Column | Type | Path | |\n|---|---|---|---|\n")
	for _, c := range t.All() {
		path := ""
		if c.Path != "" {
			path = "`" + c.Path + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", c.Name, c.SQLType(), path, c.Comment)
	}
}

// All returns the columns of a table as stored, including those that every table of its kind has.
func (t *Table) All() []Column {
	return slices.Concat(t.Columns, t.lineage, t.carried())
}
