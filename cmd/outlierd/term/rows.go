package term

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A Printer writes the rows of a result in one of the formats of --output.
type Printer interface {
	Row(values []any) error
	Close() error
}

// Formats are the formats of --output. [NewPrinter] has two more: md is markdown, and links has the first link of each
// row, one per line.
var Formats = []string{"table", "line", "markdown", "csv", "json", "ndjson"}

// NewPrinter makes a printer in one of the [Formats].
func NewPrinter(format string, w io.Writer, o Options, columns []string) (Printer, error) {
	switch format {
	case "table":
		return NewTable(w, o, columns), nil
	case "line":
		return newLines(w, o.Zone, columns), nil
	case "markdown", "md":
		return newMarkdown(w, o.Zone, columns)
	case "links":
		return newLinks(w, columns), nil
	case "csv":
		names := make([]any, len(columns))
		for i, column := range columns {
			names[i] = column
		}
		p := &csvPrinter{csv.NewWriter(w), w, Is(w), o.Defuse}
		return p, p.Row(names)
	case "ndjson":
		return newJSON(&JSONList{W: w, Lines: true}, columns)
	case "json":
		return newJSON(&JSONList{W: w}, columns)
	}
	return nil, fmt.Errorf("unknown format %q: want %s", format, OneOf(Formats))
}

// rowPrinter writes each row by itself.
type rowPrinter func(values []any) error

func (p rowPrinter) Row(values []any) error { return p(values) }

func (p rowPrinter) Close() error { return nil }

// OneOf lists the allowed words: "table, json or csv".
func OneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// NewPlan returns a printer of the rows of EXPLAIN for people: the last column of each row as it is drawn, over several
// lines.
func NewPlan(w io.Writer) Printer {
	return rowPrinter(func(values []any) error {
		for line := range strings.Lines(Raw(values[len(values)-1])) {
			if _, err := fmt.Fprintln(w, Plain(strings.TrimRight(line, "\n"))); err != nil {
				return err
			}
		}
		return nil
	})
}

// csvPrinter writes values unchanged, except to a terminal or for a spreadsheet.
type csvPrinter struct {
	*csv.Writer
	w                io.Writer
	terminal, defuse bool
}

func (p *csvPrinter) Row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		cells[i] = Raw(v)
		if _, isText := v.(string); isText && p.defuse {
			cells[i] = defuse(cells[i])
		}
		if p.terminal {
			cells[i] = Plain(cells[i])
		}
	}
	if len(cells) == 1 && cells[0] == "" { // readers skip a blank line
		p.Flush()
		_, err := io.WriteString(p.w, "\"\"\n")
		return errors.Join(p.Error(), err)
	}
	return p.Write(cells)
}

func (p *csvPrinter) Close() error {
	p.Flush()
	return p.Error()
}

// A JSONList writes values as a JSON array.
type JSONList struct {
	W     io.Writer
	Lines bool // one value a line in place of an array
	added bool
}

// Add writes a value.
func (l *JSONList) Add(v any) error {
	text, err := JSON(v)
	if err != nil {
		return err
	}
	return l.addText(text)
}

func (l *JSONList) addText(text []byte) error {
	form := ",\n %s"
	switch {
	case l.Lines:
		form = "%s\n"
	case !l.added:
		form = "[%s"
	}
	l.added = true
	_, err := fmt.Fprintf(l.W, form, text)
	return err
}

// Close writes the end of the array.
func (l *JSONList) Close() error {
	end := "]\n"
	switch {
	case l.Lines:
		end = ""
	case !l.added:
		end = "[]\n"
	}
	_, err := io.WriteString(l.W, end)
	return err
}

// jsonPrinter writes each row as an object whose members are in column order.
type jsonPrinter struct {
	*JSONList
	columns []string
	names   []string // of the members: the columns as JSON
}

func newJSON(list *JSONList, columns []string) (*jsonPrinter, error) {
	p := &jsonPrinter{JSONList: list, columns: columns}
	for _, column := range uniqueNames(columns) {
		name, err := JSON(column)
		if err != nil {
			return nil, err
		}
		p.names = append(p.names, string(name))
	}
	return p, nil
}

// uniqueNames makes column names unique. DuckDB does so for one SELECT, but not for the last one of several statements.
func uniqueNames(columns []string) (names []string) {
	taken := map[string]bool{}
	for _, column := range columns {
		name := column
		for n := 1; taken[name]; n++ {
			name = fmt.Sprintf("%s_%d", column, n)
		}
		taken[name] = true
		names = append(names, name)
	}
	return names
}

func (p *jsonPrinter) Row(values []any) error {
	text := []byte("{")
	for i, v := range values {
		value, err := JSON(v)
		if err != nil {
			return fmt.Errorf("print column %s: %w", p.columns[i], err)
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%s:%s", p.names[i], value)
	}
	return p.addText(append(text, '}'))
}

// Raw returns a value as text, empty for NULL.
func Raw(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case time.Time:
		return v.UTC().Format("2006-01-02 15:04:05.999999Z07:00")
	case []byte:
		return formatBlob(v)
	}
	b, err := JSON(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// formatBlob formats bytes like SQL: \xAA for bytes that are not printable.
func formatBlob(b []byte) string {
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

// JSON encodes a value as JSON that cannot act on a terminal: it escapes control characters that JSON
// allows, which does not change the value.
func JSON(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	line := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if !bytes.ContainsFunc(line, isUnsafe) {
		return line, nil
	}
	var safe []byte
	for _, r := range string(line) {
		if isUnsafe(r) {
			safe = fmt.Appendf(safe, `\u%04x`, r)
		} else {
			safe = utf8.AppendRune(safe, r)
		}
	}
	return safe, nil
}

// timeForm is the layout of times in tables, without the zone.
const timeForm = "2006-01-02 15:04:05"

// formatValue formats a value for people: a time to the second, in the zone of the job file.
func formatValue(v any, zone *time.Location) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case time.Time:
		if zone == nil || zone == time.UTC {
			return v.UTC().Format(timeForm + "Z")
		}
		return v.In(zone).Format(timeForm + " MST")
	case float32:
		return formatFloat(float64(v))
	case float64:
		return formatFloat(v)
	}
	return Plain(Raw(v))
}

// formatFloat rounds to four places, which is enough for scores and rates. It keeps the magnitude of very
// small and very large numbers.
func formatFloat(f float64) string {
	if size := math.Abs(f); size != 0 && size < 0.0001 || size >= 1e15 {
		return strconv.FormatFloat(f, 'g', 5, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 4, 64), "0"), ".")
}

// isNumeric reports whether a value is a number, and so aligned right.
func isNumeric(v any) bool {
	switch v.(type) {
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64, *big.Int, json.Number, float32, float64:
		return true
	}
	return false
}

// isLink reports whether the values of a column are addresses.
func isLink(column string) bool {
	return column == "link" || column == "url" || strings.HasSuffix(column, "_url")
}

// webAddress returns an address that is safe to follow and to write between < and >, or "".
func webAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" || len(address) > 2000 || strings.ContainsAny(address, "<> |\\\n") {
		return ""
	}
	return address
}

// defuse returns a text that a spreadsheet does not run as a formula.
func defuse(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}

// newLinks returns a printer of the first address of each row.
func newLinks(w io.Writer, columns []string) Printer {
	return rowPrinter(func(values []any) error {
		for i, v := range values {
			if address, _ := v.(string); isLink(columns[i]) && webAddress(address) != "" {
				_, err := fmt.Fprintln(w, address)
				return err
			}
		}
		return nil
	})
}
