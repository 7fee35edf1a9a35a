package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
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
		screen, _ := sizeOf(w)
		return newTable(w, screen, columns), nil
	case "csv":
		p := &csvPrinter{csv.NewWriter(w), w, terminal(w)}
		return p, p.Write(columns)
	case "ndjson":
		return newJSON(&jsonPrinter{w: w, columns: columns, after: "\n"})
	case "json":
		return newJSON(&jsonPrinter{w: w, columns: columns, before: "[", between: ",\n ", end: "]\n"})
	}
	return nil, usageError{fmt.Errorf("--output %s: want table, json, ndjson or csv", format)}
}

// anyOutput refuses an output that there is not, before anything is done.
func (o *options) anyOutput() error {
	_, err := newPrinter(o.output, new(bytes.Buffer), nil)
	return err
}

// rows prints a result that no query made.
func (o *options) rows(columns []string, rows [][]any) error {
	p, err := newPrinter(o.output, o.out, columns)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := p.row(row); err != nil {
			return err
		}
	}
	return p.close()
}

// when is a time as a value of a result: NULL if there is none.
func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// second is a value as people are told it: a time to the second.
func second(v any) any {
	if t, ok := v.(time.Time); ok {
		return t.Truncate(time.Second)
	}
	return v
}

// listed is a list of texts as a value of a result.
func listed(texts []string) any {
	all := []any{}
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// filled is a text as a value of a result: NULL if there is none.
func filled(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// tablePrinter lines columns up for a person. It holds the rows until it knows widths: of
// a long table those of its first rows count, unless later ones need more. The last column
// has the room that the others leave: what is long, such as a reason, stands there.
type tablePrinter struct {
	w       io.Writer
	screen  int // how wide the terminal is; 0 if there is none
	columns []string
	cells   [][]string
	right   []bool // the columns of numbers
	printed int    // rows
	wide    []int  // the columns, in what was printed; nil before
}

// tablePage is how many rows of a table are held.
const tablePage = 1000

// widest is the width at which a cell of a table is clipped; in the last column only at
// a terminal, and there only if it would not fit.
const widest = 60

func newTable(w io.Writer, screen int, columns []string) *tablePrinter {
	p := &tablePrinter{w: w, screen: screen, right: make([]bool, len(columns))}
	for _, c := range columns {
		p.columns = append(p.columns, clip(c, widest)) // a pivot makes names of data
	}
	return p
}

func (p *tablePrinter) row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		p.right[i] = p.right[i] || numeric(v)
		if cells[i] = text(v); i < len(values)-1 {
			cells[i] = clip(cells[i], widest)
		}
	}
	p.cells = append(p.cells, cells)
	if len(p.cells) == tablePage {
		return p.print()
	}
	return nil
}

// print prints the rows that it holds, the first time below the names of the columns.
func (p *tablePrinter) print() error {
	widths := p.widths()
	var out strings.Builder
	if p.wide == nil {
		p.line(&out, p.columns, widths)
		rules := make([]string, len(widths))
		for i, n := range widths {
			rules[i] = strings.Repeat("─", n)
			if i == len(widths)-1 && !p.right[i] && p.screen == 0 {
				rules[i] = strings.Repeat("─", min(n, widest)) // a text of any length needs no such rule
			}
		}
		p.line(&out, rules, widths)
	}
	for _, row := range p.cells {
		p.line(&out, row, widths)
	}
	p.wide, p.printed, p.cells = widths, p.printed+len(p.cells), p.cells[:0]
	_, err := io.WriteString(p.w, out.String())
	return err
}

func (p *tablePrinter) close() error {
	err := p.print()
	if err == nil && p.printed != 1 {
		_, err = fmt.Fprintf(p.w, "(%d rows)\n", p.printed)
	}
	return err
}

// widths are those of the columns. At a terminal the cells of the last one are clipped
// to what the others have left of it, but never to less than any cell may have.
func (p *tablePrinter) widths() []int {
	widths := make([]int, len(p.columns))
	copy(widths, p.wide)
	left := p.screen
	for i, c := range p.columns {
		widths[i] = max(widths[i], width(c))
		for _, row := range p.cells {
			if i == len(p.columns)-1 && p.screen > 0 {
				row[i] = clip(row[i], max(left, widest))
			}
			widths[i] = max(widths[i], width(row[i]))
		}
		left -= widths[i] + len("  ")
	}
	return widths
}

func (p *tablePrinter) line(out *strings.Builder, cells []string, widths []int) {
	for i, cell := range cells {
		fill := strings.Repeat(" ", widths[i]-width(cell))
		if i > 0 {
			out.WriteString("  ")
		}
		switch {
		case p.right[i]:
			out.WriteString(fill + cell)
		case i == len(cells)-1:
			out.WriteString(cell)
		default:
			out.WriteString(cell + fill)
		}
	}
	out.WriteString("\n")
}

// csvPrinter writes values as they are, except to a terminal.
type csvPrinter struct {
	*csv.Writer
	w        io.Writer
	terminal bool
}

func (p *csvPrinter) row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = raw(v)
		if p.terminal {
			cells[i] = plain(cells[i])
		}
	}
	if len(cells) == 1 && cells[0] == "" { // readers skip a blank line
		p.Flush()
		_, err := io.WriteString(p.w, "\"\"\n")
		return errors.Join(p.Error(), err)
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
	names                       []string // of the members: the columns as JSON
	before, between, after, end string
	rows                        int
}

func newJSON(p *jsonPrinter) (*jsonPrinter, error) {
	taken := map[string]bool{}
	for _, column := range p.columns {
		unique := column
		for n := 1; taken[unique]; n++ { // as DuckDB tells two columns of one name apart
			unique = fmt.Sprintf("%s_%d", column, n)
		}
		taken[unique] = true
		name, err := encode(unique)
		if err != nil {
			return nil, err
		}
		p.names = append(p.names, string(name))
	}
	return p, nil
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
		value, err := encode(v)
		if err != nil {
			return fmt.Errorf("print column %s: %w", p.columns[i], err)
		}
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(&out, "%s:%s", p.names[i], value)
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
	case string:
		return v
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	case []byte:
		return blob(v)
	}
	b, err := encode(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// blob is written as SQL writes it: \xAA for what is no printable character.
func blob(b []byte) string {
	var out strings.Builder
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\\' {
			fmt.Fprintf(&out, `\x%02X`, c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// encode writes JSON in which nothing can act on a terminal: what JSON would let
// through of control characters is escaped, which changes no value.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	line := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if !bytes.ContainsFunc(line, unsafe) {
		return line, nil
	}
	var safe []byte
	for _, r := range string(line) {
		if unsafe(r) {
			safe = fmt.Appendf(safe, `\u%04x`, r)
		} else {
			safe = utf8.AppendRune(safe, r)
		}
	}
	return safe, nil
}

// text is a value for a person at a terminal.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case float32:
		return decimals(float64(v))
	case float64:
		return decimals(v)
	}
	return plain(raw(v))
}

// decimals rounds to four places, which is enough for scores and rates; the very
// small and the very large keep their size instead.
func decimals(f float64) string {
	if size := math.Abs(f); size != 0 && size < 0.0001 || size >= 1e15 {
		return strconv.FormatFloat(f, 'g', 5, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 4, 64), "0"), ".")
}

// numeric tells whether a value is a number, which stands at the right of its column.
func numeric(v any) bool {
	switch v.(type) {
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64, *big.Int, json.Number, float32, float64:
		return true
	}
	return false
}
