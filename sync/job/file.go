package job

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"outlierd/sync/yamltree"
)

// What a file of values may hold: lines of text, or a table, which has other columns too.
const (
	maxList  = 4 << 20
	maxTable = 64 << 20
)

// A value of a file, and the line where it begins.
type value struct {
	text string
	line int
}

// values are those that a source's file holds, without blank ones. Errors call the file by
// name.
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

// linesOf are the lines of a text, without blanks around them, comments and empty ones. A
// comment is a line that begins with #, or what follows a # after a blank: an address may
// hold a # of its own.
func linesOf(text string) (values []value) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if strings.Contains(line, "#") {
			line = comment.ReplaceAllString(line, "")
		}
		if line = strings.TrimSpace(line); line != "" {
			values = append(values, value{line, n})
		}
	}
	return values
}

var comment = regexp.MustCompile(`(^|\s)#.*`)

// tabular reports whether a file is a table by its name.
func tabular(path string) bool {
	return slices.Contains([]string{".csv", ".tsv"}, strings.ToLower(filepath.Ext(path)))
}

// columnOf are the values of one column of a table whose first line names the columns. They
// are separated by commas, semicolons or tabs, whichever sets the column apart.
func columnOf(text, column string) ([]value, error) {
	header, _, _ := strings.Cut(text, "\n")
	for _, separator := range ",;\t" {
		table := csv.NewReader(strings.NewReader(text))
		table.Comma, table.FieldsPerRecord, table.ReuseRecord = separator, -1, true
		names, err := table.Read()
		if err != nil {
			continue // another separator may make sense of it; if none does, the column is missing
		}
		if at := slices.IndexFunc(names, func(s string) bool { return strings.TrimSpace(s) == column }); at >= 0 {
			return cells(table, at)
		}
	}
	return nil, fmt.Errorf("has no column %q; its first line is %.100q", column, strings.TrimSpace(header))
}

// cells are those of one column in the rows that follow; a row may be too short for it.
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
