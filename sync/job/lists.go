package job

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"outlierd/lazyregexp"
	"outlierd/sync/yamltree"
)

// loops reads for_each: each name with its values, in the order of the file.
func (b *builder) loops(job *yamltree.Node) []loop {
	n := job.Get("for_each")
	if !n.Has(yamltree.Mapping) {
		return nil
	}
	var loops []loop
	var lists [][]string
	for _, e := range n.Entries {
		if !b.loopName(e.Key) {
			continue
		}
		source, members := b.origin(e.Value)
		l := loop{Loop: Loop{e.Key.Text, source}}
		if source.File != "" {
			for _, v := range readable(e.Value.Get("file"), source) {
				members = append(members, b.file.Scalar(v.text))
			}
		}
		l.values(members)
		if source.File == "" && l.tried != nil {
			l.Source.Values = l.tried
			lists = append(lists, l.tried)
		}
		loops = append(loops, l)
	}
	if product(lists) > MaxAsks {
		n.Head().Refuse("makes more than %d combinations", MaxAsks)
	}
	return loops
}

// values takes the known values, without repetitions.
func (l *loop) values(members []*yamltree.Node) {
	seen := map[string]bool{}
	for _, m := range members {
		if m.Has(yamltree.Text, yamltree.Whole, yamltree.Number) &&
			strings.TrimSpace(m.Text) != "" && !seen[m.Text] {
			seen[m.Text] = true
			l.tried, l.members = append(l.tried, m.Text), append(l.members, m)
		}
	}
}

// loopName refuses names that could never be expanded.
func (b *builder) loopName(key *yamltree.Node) bool {
	_, taken := b.env(key.Text)
	switch {
	case !yamltree.IsName(key.Text):
		key.Refuse("must be letters, digits and _, not beginning with a digit, got %q", key.Text)
	case taken:
		key.RefuseWithHint("choose another name",
			"the environment variable %s is set, so ${%s} would be ambiguous", key.Text, key.Text)
	default:
		return true
	}
	return false
}

// MaxAsks is the maximum number of searches of one run. A cross product easily becomes larger than
// intended.
const MaxAsks = 10_000

// product returns the number of combinations of lists, or a number above MaxAsks.
func product(lists [][]string) int {
	n := 1
	for _, l := range lists {
		if n = n * len(l); n > MaxAsks {
			return n
		}
	}
	return n
}

// combinations yields the cross product of the lists. The last one varies fastest.
func combinations(lists [][]string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		if slices.ContainsFunc(lists, func(l []string) bool { return len(l) == 0 }) {
			return
		}
		at := make([]int, len(lists))
		for {
			chosen := make([]string, len(lists))
			for i, l := range lists {
				chosen[i] = l[at[i]]
			}
			if !yield(chosen) {
				return
			}
			i := len(at) - 1
			for ; i >= 0; i-- {
				if at[i]++; at[i] < len(lists[i]) {
					break
				}
				at[i] = 0
			}
			if i < 0 {
				return
			}
		}
	}
}

// origin reads where a list comes from, and the nodes of its members if it is in the file itself.
func (b *builder) origin(n *yamltree.Node) (Source, []*yamltree.Node) {
	at := Source{Line: n.Line, Column: n.Column}
	if !n.Has(yamltree.Mapping) {
		return at, n.Members()
	}
	var from []yamltree.Entry
	for _, e := range n.Entries {
		if e.Key.Text != "column" {
			from = append(from, e)
		}
	}
	column := n.Get("column")
	switch {
	case len(from) > 1:
		from[1].Key.Refuse("cannot be combined with %s: a list comes from one of list, file and sql",
			from[0].Key.Text)
		return at, nil
	case len(from) == 0 || column != nil && from[0].Key.Text != "file":
		column.Head().RefuseWithHint("write {file: channels.csv, column: channel}", "column needs file")
		return at, nil
	case !from[0].Value.Has(yamltree.Text) || column != nil && !column.Has(yamltree.Text):
		return at, nil
	}
	value := from[0].Value
	switch from[0].Key.Text {
	case "list":
		return at, b.list(value)
	case "file":
		at.File, at.Field, at.Line, at.Column = b.absolute(value.Text), column.TextOr(""), value.Line, value.Column
		return at, nil
	case "sql":
		return Source{SQL: b.sql(value), Line: value.Line, Column: value.Column}, nil
	}
	return at, nil
}

// sql reads a query over the user's own tables, which are in the DuckDB file.
func (b *builder) sql(n *yamltree.Node) string {
	for _, sink := range b.cfg.Sinks {
		if sink.Kind == SinkDuckDB {
			return n.Text
		}
	}
	n.RefuseWithHint("add - duckdb: outliers.duckdb to sinks", "needs a duckdb sink, whose tables SQL reads")
	return ""
}

// list returns the members of the named list.
func (b *builder) list(name *yamltree.Node) []*yamltree.Node {
	lists := b.root.Get("lists")
	if found := lists.Get(name.Text); found != nil {
		return found.Members()
	}
	var known []string
	if lists != nil {
		for _, e := range lists.Entries {
			known = append(known, e.Key.Text)
		}
	}
	name.RefuseWithHint(name.DidYouMean(name.Text, known), "there is no list %s", name.Shown())
	return nil
}

// readable returns the values of the file that n names. An empty file is only a warning, because it may
// change.
func readable(n *yamltree.Node, source Source) []value {
	values, err := source.values(n.Shown())
	switch {
	case err != nil:
		n.RefuseQuoting(err.Error())
	case len(values) == 0:
		n.Warn("", "the file %s holds no values", n.Shown())
	}
	return values
}

// A value is a value from a file, and the line where it begins.
type value struct {
	text string
	line int
}

// values returns the values of a source's file, without blank ones. Errors refer to the file as name.
func (s Source) values(name string) ([]value, error) {
	most := maxList
	if s.Field != "" {
		most = maxTable
	}
	text, err := yamltree.ReadFile(s.File, name, most)
	if err != nil {
		return nil, err
	}
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("the file %s is not UTF-8 text", name)
	}
	text = strings.TrimPrefix(text, "\uFEFF")
	if s.Field == "" {
		return linesOf(text), nil
	}
	values, err := columnOf(text, s.Field)
	if err != nil {
		return nil, fmt.Errorf("the file %s %w", name, err)
	}
	return values, nil
}

// The forms of a file of values: lines of text, or a table, which has other columns as well.
const (
	maxList  = 4 << 20
	maxTable = 64 << 20
)

// linesOf returns the lines of a text without surrounding blanks, comments and empty lines. A comment is a
// line that begins with #, or the text after a blank and a #: an address may contain a # itself.
func linesOf(text string) (values []value) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if strings.Contains(line, "#") {
			line = comment().ReplaceAllString(line, "")
		}
		if line = strings.TrimSpace(line); line != "" {
			values = append(values, value{line, n})
		}
	}
	return values
}

var comment = lazyregexp.New(`(^|\s)#.*`)

// tabular reports whether a file is a table, by its name.
func tabular(path string) bool {
	return slices.Contains([]string{".csv", ".tsv"}, strings.ToLower(filepath.Ext(path)))
}

// columnOf returns the values of one column of a table whose first line has the names of the columns. The
// separator is a comma, semicolon or tab, whichever separates the column.
func columnOf(text, column string) ([]value, error) {
	header, _, _ := strings.Cut(text, "\n")
	for _, separator := range ",;\t" {
		table := csv.NewReader(strings.NewReader(text))
		table.Comma, table.FieldsPerRecord, table.ReuseRecord = separator, -1, true
		names, err := table.Read()
		if err != nil {
			continue // another separator may fit; if none does, the column is missing
		}
		if at := slices.IndexFunc(names, func(s string) bool { return strings.TrimSpace(s) == column }); at >= 0 {
			return cells(table, at)
		}
	}
	return nil, fmt.Errorf("has no column %q; its first line is %.100q", column, strings.TrimSpace(header))
}

// cells returns one column of the remaining rows. A row may be too short for it.
func cells(table *csv.Reader, at int) (values []value, err error) {
	for {
		row, err := table.Read()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("is not a table of comma-separated values: %w", err)
		}
		if at >= len(row) {
			continue
		}
		if text := strings.TrimSpace(row[at]); text != "" {
			line, _ := table.FieldPos(at)
			values = append(values, value{strings.Clone(text), line})
		}
	}
}
