package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// printer writes the rows of a result in one of the formats of --output.
type printer interface {
	row(values []any) error
	close() error
}

func newPrinter(format string, w io.Writer, columns []string) (printer, error) {
	switch format {
	case "table":
		return &tablePrinter{w: w, columns: columns}, nil
	case "csv":
		p := &csvPrinter{csv.NewWriter(w)}
		return p, p.Write(columns)
	case "ndjson":
		return &jsonPrinter{w: w, columns: columns, after: "\n"}, nil
	case "json":
		return &jsonPrinter{w: w, columns: columns, before: "[", between: ",\n ", after: "", end: "]\n"}, nil
	}
	return nil, usageError{fmt.Errorf("--output %s: want table, json, ndjson or csv", format)}
}

// tablePrinter lines columns up for a person. It holds all rows, since widths are
// known only at the end.
type tablePrinter struct {
	w       io.Writer
	columns []string
	cells   [][]string
	right   []bool
}

// widest is the width at which a cell of a table is clipped.
const widest = 60

func (p *tablePrinter) row(values []any) error {
	cells := make([]string, len(values))
	if p.right == nil {
		p.right = make([]bool, len(values))
	}
	for i, v := range values {
		switch v.(type) {
		case int64, int32, float64, float32, int16, int8, uint64:
			p.right[i] = true
		}
		cells[i] = clip(text(v), widest)
	}
	p.cells = append(p.cells, cells)
	return nil
}

func (p *tablePrinter) close() error {
	widths := make([]int, len(p.columns))
	for i, c := range p.columns {
		widths[i] = width(c)
		for _, row := range p.cells {
			widths[i] = max(widths[i], width(row[i]))
		}
	}
	var out strings.Builder
	p.line(&out, p.columns, widths)
	rules := make([]string, len(widths))
	for i, n := range widths {
		rules[i] = strings.Repeat("─", n)
	}
	p.line(&out, rules, widths)
	for _, row := range p.cells {
		p.line(&out, row, widths)
	}
	if len(p.cells) != 1 {
		fmt.Fprintf(&out, "(%d rows)\n", len(p.cells))
	}
	_, err := io.WriteString(p.w, out.String())
	return err
}

func (p *tablePrinter) line(out *strings.Builder, cells []string, widths []int) {
	for i, cell := range cells {
		pad := strings.Repeat(" ", widths[i]-width(cell))
		if i > 0 {
			out.WriteString("  ")
		}
		switch {
		case p.right != nil && p.right[i]:
			out.WriteString(pad + cell)
		case i == len(cells)-1:
			out.WriteString(cell)
		default:
			out.WriteString(cell + pad)
		}
	}
	out.WriteString("\n")
}

// width is how many columns of a terminal a text takes: East Asian characters and
// most emoji take two.
func width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Mn, r) || r == '\u200d' || r == '\ufe0f':
		case r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
			r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
			r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd):
			n += 2
		default:
			n++
		}
	}
	return n
}

type csvPrinter struct{ *csv.Writer }

func (p *csvPrinter) row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = raw(v)
	}
	return p.Write(cells)
}

func (p *csvPrinter) close() error {
	p.Flush()
	return p.Error()
}

// jsonPrinter writes each row as an object whose members are in column order.
type jsonPrinter struct {
	w                           io.Writer
	columns                     []string
	before, between, after, end string
	rows                        int
}

func (p *jsonPrinter) row(values []any) error {
	var out strings.Builder
	if p.rows == 0 {
		out.WriteString(p.before)
	} else {
		out.WriteString(p.between)
	}
	p.rows++
	out.WriteString("{")
	for i, v := range values {
		name, err := json.Marshal(p.columns[i])
		if err != nil {
			return err
		}
		value, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("print column %s: %w", p.columns[i], err)
		}
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, "%s:%s", name, value)
	}
	out.WriteString("}" + p.after)
	_, err := io.WriteString(p.w, out.String())
	return err
}

func (p *jsonPrinter) close() error {
	if p.rows == 0 {
		_, err := io.WriteString(p.w, p.before+p.end)
		return err
	}
	_, err := io.WriteString(p.w, p.end)
	return err
}

// raw is a value as text, empty for NULL.
func raw(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	case []byte:
		return string(v)
	case string:
		return v
	case float64, float32, int64, int32, int16, int8, uint64, bool:
		return fmt.Sprint(v)
	}
	if b, err := json.Marshal(v); err == nil {
		return string(b)
	}
	return fmt.Sprint(v)
}

// text is a value for a person at a terminal.
func text(v any) string {
	if v == nil {
		return "NULL"
	}
	if f, ok := v.(float64); ok {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.4f", f), "0"), ".")
	}
	return plain(raw(v))
}

// plain makes a text harmless to a terminal. Titles and comments are written by
// strangers: a control character in one could move the cursor or worse.
func plain(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return '\ufffd'
		}
		return r
	}, s)
}
