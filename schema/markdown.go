package schema

import (
	"fmt"
	"slices"
	"strings"
)

const preface = `# Tables

Every table that outlierd keeps, in DuckDB and in Parquet alike. This page is generated from the
declarations in package schema; ` + "`go test ./schema -update`" + ` writes it anew.

How a table is kept:

- **current**: one row per key, the last observation, with ` + "`first_seen_at`, `last_seen_at` and `times_seen`" + ` added.
  Where a number grows, the row also has what it was on an earlier day, such as ` + "`previous_view_count`" + `.
- **history**: every observation, append-only.
- **changes**: a history that skips rows in which nothing but the lineage differs from the key's last row.
- **children**: the rows of a parent, replaced whole when the parent is observed again.
- **once**: fetched once and appended; should it come again, its rows are replaced.
- **log**: append-only.

Where a value comes from: a path like ` + "`snippet.title`" + ` starts at the row's JSON object, ` + "`../id`" + ` at the object
that holds the rows, ` + "`/time`" + ` at the whole answer; ` + "`*[]`" + ` are the
elements of an answer of any shape. A column without a path is computed or comes from the journal.

What is absent, null or unreadable is NULL, never zero. A value of another type is converted where that loses
nothing (` + "`\"5\"` and `5.0`" + ` are 5); otherwise the column is NULL and the original is in ` + "`extra`" + `, next to the fields that
the interface does not know. In ` + "`extra`" + ` a name that comes again has a number: ` + "`title#2`" + `. transcript_events has no ` + "`extra`" + `;
there the journal alone keeps such values. NUL characters in texts are kept; half a surrogate pair and bytes that are
not UTF-8 are U+FFFD, and ` + "`outlierd schema drift`" + ` names the fields with such bytes ("not UTF-8").

` + "`fields_missing`" + ` tells what the answer lacks from what is null in it: it lists the columns whose field is not there at all.

A table that an earlier version made gets new columns, and new tables, when it is opened. Rows from before are NULL there, and
a new history has nothing of them, until ` + "`outlierd rebuild`" + ` reads them from the journal once more.

A value has at most 1 MiB (1,048,576 bytes). A longer text is cut and ends in ` + "`… [cut from 5242880 bytes]`" + `; longer JSON is
replaced by a text of its beginning with the same mark; a longer list loses its last elements. ` + "`outlierd schema drift`" + `
names the fields ("too large"), and the journal keeps the answer whole.

An id is any text or number that is not blank, has no control characters and at most 256 bytes. What stands in an
answer without its id, such as a hit without ` + "`id`" + `, is no object where one belongs, or holds an unknown value that is
nested more than 100 levels deep, makes no row: the journal alone keeps it. It is told in a warning when it first comes,
and ` + "`outlierd schema drift`" + ` counts it as "missing", "not an object" or "nested too deeply".

A key has one row in a current table, and one row per answer in a history. What an answer lists twice, such as a video
under the same id or a comment that is equal in every field, makes one row: the first counts. The journal keeps both,
and ` + "`outlierd schema drift`" + ` counts them as "twice".
`

// Markdown is the reference of all tables, as in docs/tables.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString("\n## Data tables\n")
	for _, t := range Tables() {
		t.describe(&b)
	}
	b.WriteString("\n## Operations tables\n\nSchema `ops` in DuckDB; in Parquet folders `ops_runs` and so on. Rows are numbered by `id`.\n")
	for _, t := range OpsTables() {
		t.describe(&b)
	}
	return b.String()
}

func (t *Table) describe(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n", t.Name, t.Comment)
	fmt.Fprintf(b, "Kept as %s; key %s.", t.Kind, strings.Join(t.Key, ", "))
	if t.History != nil {
		fmt.Fprintf(b, " Every observation is in %s.", t.History.Name)
	}
	for i, p := range t.Rows {
		lead, place := "; ", "`"+p.Path+"`"
		if i == 0 {
			lead = " Rows: "
		}
		if p.Path == "" {
			place = "the whole answer"
		}
		fmt.Fprintf(b, "%s%s of %s", lead, place, p.Op)
	}
	if len(t.Rows) > 0 {
		b.WriteString(".")
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

// All are the columns of a table as it is stored, with those that every table of its kind has.
func (t *Table) All() []Column {
	columns := slices.Concat(t.Columns, t.lineage)
	if t.Kind == Current {
		columns = append(columns, t.carried()...)
	}
	return columns
}
