package schema

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:generate go test . -run TestTablesMatchTheGoldenFile|TestReferenceIsGenerated -update

// preface says what holds for all tables.
//
//go:embed preface.md
var preface string

// Markdown returns the reference of all tables, the content of docs/tables.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString("\n## Columns of many tables\n")
	describeColumns(&b, sharedColumns())
	b.WriteString("\n## Data tables\n")
	for _, t := range Tables() {
		t.describe(&b)
	}
	b.WriteString("\n## Operations tables\n\nSchema `ops` in DuckDB; in Parquet folders `ops_runs` and so on. " +
		"Each also has these columns:\n")
	describeColumns(&b, opsColumns())
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
	b.WriteString("\n")
	columns := t.All()
	if current := t.current(); current != nil {
		columns = t.beyond(b, current)
	}
	columns, _ = splitColumns(columns, opsColumns())
	columns, shared := splitColumns(columns, sharedColumns())
	if len(columns) > 0 {
		describeColumns(b, columns)
	}
	if len(shared) == len(sharedColumns()) {
		b.WriteString("\nAnd all [columns of many tables](#columns-of-many-tables).\n")
	} else if len(shared) > 0 {
		fmt.Fprintf(b, "\nAnd %s of the [columns of many tables](#columns-of-many-tables).\n", nameColumns(shared))
	}
}

// sharedColumns returns the columns that most data tables have.
func sharedColumns() []Column {
	var extra []Column
	for _, c := range Outliers.Columns {
		if c.Name == "extra" || c.Name == "fields_missing" {
			extra = append(extra, c)
		}
	}
	return slices.Concat(extra, lineage, []Column{firstResponse}, seen)
}

// opsColumns returns the columns that all operations tables have.
func opsColumns() []Column {
	common := OpsTables()[0].All()
	for _, t := range OpsTables() {
		_, common = splitColumns(common, t.All())
	}
	return common
}

// current returns the current table of a history, or nil.
func (t *Table) current() *Table {
	for _, current := range Tables() {
		if current.History == t {
			return current
		}
	}
	return nil
}

// beyond says that a history has the columns of its current table, and returns those that it has besides.
func (t *Table) beyond(b *strings.Builder, current *Table) []Column {
	more, _ := splitColumns(t.All(), current.All())
	fmt.Fprintf(b, "\nIt has the columns of [%s](#%[1]s)", current.Name)
	b.WriteString(map[bool]string{true: ".\n", false: ", and these:\n"}[len(more) == 0])
	return more
}

// splitColumns returns the columns that are not among others, and those that are, with the same meaning.
func splitColumns(columns, others []Column) (own, shared []Column) {
	for _, c := range columns {
		same := func(o Column) bool { return o.Name == c.Name && o.Path == c.Path && o.Comment == c.Comment }
		if slices.ContainsFunc(others, same) {
			shared = append(shared, c)
		} else {
			own = append(own, c)
		}
	}
	return own, shared
}

func nameColumns(columns []Column) string {
	var names []string
	for _, c := range columns {
		names = append(names, "`"+c.Name+"`")
	}
	return strings.Join(names, ", ")
}

func describeColumns(b *strings.Builder, columns []Column) {
	if !slices.ContainsFunc(columns, func(c Column) bool { return c.Path != "" }) {
		b.WriteString("\n| Column | Type | |\n|---|---|---|\n")
		for _, c := range columns {
			fmt.Fprintf(b, "| %s | %s | %s |\n", c.Name, c.SQLType(), c.Comment)
		}
		return
	}
	b.WriteString("\n| Column | Type | Path | |\n|---|---|---|---|\n")
	for _, c := range columns {
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
