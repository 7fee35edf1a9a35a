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
	"unicode"
	"unicode/utf8"

	"outlierd/internal/lazyregexp"
	"outlierd/sync/yamltree"
)

// readLoops reads for_each: each name with its values, in the order of the file.
func (b *builder) readLoops(job *yamltree.Node) (loops []Loop) {
	n := job.Get("for_each")
	var lists [][]string
	for _, name := range n.Keys() {
		if !b.loopName(n.Get(name).Key) {
			continue
		}
		source, members := readSource(b.cfg, b.root, n.Get(name))
		known := map[string]bool{}
		for _, m := range members {
			if m.Has(yamltree.Text, yamltree.Whole, yamltree.Number) && strings.TrimSpace(m.Text) != "" && !known[m.Text] {
				known[m.Text] = true
				source.Values, source.nodes = append(source.Values, m.Text), append(source.nodes, m)
			}
		}
		if source.Values != nil {
			lists = append(lists, source.Values)
		}
		loops = append(loops, Loop{name, source})
	}
	if countCombinations(lists) > MaxAsks {
		n.Head().Refuse("makes more than %d combinations", MaxAsks)
	}
	return loops
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

// countCombinations returns the number of combinations of lists, or a number above MaxAsks.
func countCombinations[T any](lists [][]T) int {
	n := 1
	for _, l := range lists {
		if n = n * len(l); n > MaxAsks {
			return n
		}
	}
	return n
}

// combinations yields the cross product of lists that have at most MaxAsks combinations. The last one varies fastest.
func combinations[T any](lists [][]T) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for n := range countCombinations(lists) {
			chosen := make([]T, len(lists))
			for i, l := range slices.Backward(lists) {
				chosen[i], n = l[n%len(l)], n/len(l)
			}
			if !yield(chosen) {
				return
			}
		}
	}
}

// readSource reads where a list comes from, and the nodes of its members if it is in the file itself.
func readSource(c *Config, root, n *yamltree.Node) (Source, []*yamltree.Node) {
	at := Source{At: n.At()}
	if !n.Has(yamltree.Mapping) {
		return at, n.Members()
	}
	key, value := n.Choice(schema().Definitions["texts"].Exclusive)
	column := n.Get("column")
	isRefused := slices.ContainsFunc(n.Entries, func(e yamltree.Entry) bool { return e.Key.Wrong || e.Value.Wrong })
	switch {
	case isRefused || !value.Has(yamltree.Text) || column != nil && !column.Has(yamltree.Text): // by the schema
	case key.Text == "list":
		return at, root.Get("lists").Get(value.Text).Members()
	case key.Text == "file":
		return Source{File: absolutePath(c, value, value.Text), Name: value.Shown(), Field: column.TextOr(""),
			At: value.At()}, nil
	case key.Text == "sql":
		needsTables(c, value)
		return Source{SQL: value.Text, At: value.At()}, nil
	}
	return at, nil
}

// A value is a value of a list. From a file it has the line where it begins, and how many bytes of the line
// come before it at least; else 0.
type value struct {
	text         string
	line, column int
	node         *yamltree.Node // in the job file
}

// The maximum sizes of a list, and of a table, which has other columns as well, in bytes.
const (
	maxList  = 4 << 20
	maxTable = 64 << 20
)

// maxValue is the maximum length of a value, in characters. No query or title is as long: it is several
// values whose separator was not found.
const maxValue = 500

// readFile returns the values of a source's file, without blank ones, and what is wrong with the others.
func (s Source) readFile() (values []value, wrong []string, err error) {
	most := maxList
	if s.Field != "" {
		most = maxTable
	}
	text, err := yamltree.ReadFile(s.File, s.Name, most)
	if err != nil {
		return nil, nil, err
	}
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return nil, nil, fmt.Errorf("the file %s is UTF-16; save it as UTF-8", s.Name)
	}
	text = asShown.Replace(text)
	all := linesOf(text)
	if s.Field != "" {
		all, err = columnOf(text, s.Field)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the file %s %w", s.Name, err)
	}
	for _, v := range all {
		v.text = strings.TrimSpace(v.text)
		if what := whyIllegible(v.text); what != "" {
			wrong = append(wrong, fmt.Sprintf("%s %s", s.placeOf(v.line), what))
		} else if v.text != "" {
			values = append(values, v)
		}
	}
	return values, wrong, nil
}

// placeOf names a line of the source's file, or its SQL, for messages.
func (s Source) placeOf(line int) string {
	switch {
	case line > 0:
		return fmt.Sprintf("line %d of %s", line, s.Name)
	case s.SQL != "":
		return fmt.Sprintf("the SQL in line %d of %s", s.At.Line, s.At.File)
	}
	return fmt.Sprintf("the list in line %d of %s", s.At.Line, s.At.File)
}

// asShown replaces what editors show in one way, whatever the system that wrote it: the ends of lines,
// blanks, and byte order marks, which they do not show.
var asShown = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n",
	"\u00A0", " ", "\uFEFF", "")

// whyIllegible returns why a value is not what a person sees in an editor; "" if it is. Joiners are visible:
// they change the shape of letters and emoji.
func whyIllegible(text string) string {
	if !utf8.ValidString(text) {
		return "is not UTF-8 text; save the file as UTF-8"
	}
	for _, r := range text {
		switch {
		case r == '\t':
			return "contains a tab; write one value a line, or name a column of a table: " +
				"{file: rivals.tsv, column: channel}"
		case r == '\n':
			return "goes on in the next line; write each value in one line"
		case r == utf8.RuneError:
			return "contains U+FFFD in place of a character that was lost; write the text again"
		case unicode.Is(unicode.C, r) && r != '\u200C' && r != '\u200D':
			return fmt.Sprintf("contains the invisible character %U; write the text again", r)
		}
	}
	if n := utf8.RuneCountInString(text); n > maxValue {
		return fmt.Sprintf("has %d characters, more than %d; write one value a line", n, maxValue)
	}
	return ""
}

// linesOf returns the lines of a text without comments. A comment is a line that begins with #, or the text
// after a blank and a #: an address may contain a # itself.
func linesOf(text string) (values []value) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if strings.Contains(line, "#") {
			line = comment().ReplaceAllString(line, "")
		}
		values = append(values, value{text: strings.TrimSuffix(line, "\n"), line: n})
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
			return readColumn(table, at)
		}
	}
	return nil, fmt.Errorf("has no column %q; its first line is %.100q", column, strings.TrimSpace(header))
}

// readColumn returns one column of the remaining rows. A row may be too short for it.
func readColumn(table *csv.Reader, at int) (values []value, err error) {
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
		line, column := table.FieldPos(at)
		values = append(values, value{text: strings.Clone(row[at]), line: line, column: column - 1})
	}
}
