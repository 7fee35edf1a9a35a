package term

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// DefaultScreen is the width, in columns, of a terminal of unknown width, and of other outputs.
const DefaultScreen = 80

// Options control how results are shown to people.
type Options struct {
	Screen int            // columns of the terminal; 0 for another output
	Wide   bool           // print every column and all text, however wide that is
	Zone   *time.Location // of times
	Defuse bool           // in csv: no text is one that a spreadsheet would run as a formula
}

// A Table aligns columns for people. Text columns are clipped to fit the screen; columns that still do
// not fit are omitted at the right and counted below the table. It buffers a page of rows at a time:
// the first page determines which columns are shown.
type Table struct {
	w       io.Writer
	options Options
	columns []string
	right   []bool // the columns with numbers
	cells   [][]string
	printed int   // rows
	widths  []int // of the columns that fit; nil before the first page
}

const (
	tablePage = 1000 // rows that are held
	maxCell   = 60   // unless all is wanted
	maxRule   = 60   // below a column of long texts
	minText   = 20   // to which a column of text is clipped before another one is left out
	gap       = "  "
)

// NewTable returns a table that is printed to w.
func NewTable(w io.Writer, o Options, columns []string) *Table {
	o.Screen = cmp.Or(o.Screen, DefaultScreen)
	p := &Table{w: w, options: o, right: make([]bool, len(columns))}
	for _, c := range columns {
		p.columns = append(p.columns, Clip(c, maxCell)) // a pivot makes column names of data
	}
	return p
}

// Row adds a row; values are as a query returns them.
func (p *Table) Row(values []any) error {
	cells := make([]string, len(values))
	for i, v := range values {
		p.right[i] = p.right[i] || isNumeric(v)
		if cells[i] = formatValue(v, p.options.Zone); !p.options.Wide && i < len(values)-1 {
			cells[i] = Clip(cells[i], maxCell)
		}
	}
	p.cells = append(p.cells, cells)
	if len(p.cells) == tablePage {
		return p.printRows()
	}
	return nil
}

// Close prints the remaining rows and the number of rows.
func (p *Table) Close() error {
	err := p.End()
	if err == nil && p.printed != 1 {
		_, err = fmt.Fprintf(p.w, "(%d rows)\n", p.printed)
	}
	return err
}

// End prints the remaining rows, without the number of rows.
func (p *Table) End() error {
	err := p.printRows()
	if hidden := len(p.columns) - len(p.widths); err == nil && hidden > 0 {
		_, err = fmt.Fprintf(p.w, "(%s more: --wide or -o line)\n", Count(hidden, "column"))
	}
	return err
}

// printRows prints the buffered rows, the first time below the header.
func (p *Table) printRows() error {
	first := p.widths == nil
	p.fitColumns()
	rows := p.cells
	if first {
		rows = slices.Concat([][]string{p.columns, p.rules()}, p.cells)
	}
	var out strings.Builder
	for _, cells := range rows {
		var row []string
		for i, n := range p.widths {
			cell := Clip(cells[i], n)
			if space := strings.Repeat(" ", n-Width(cell)); p.right[i] {
				row = append(row, space+cell)
			} else {
				row = append(row, cell+space)
			}
		}
		out.WriteString(strings.TrimRight(strings.Join(row, gap), " ") + "\n")
	}
	p.printed, p.cells = p.printed+len(p.cells), p.cells[:0]
	_, err := io.WriteString(p.w, out.String())
	return err
}

// rules returns the row below the header.
func (p *Table) rules() (row []string) {
	for i, n := range p.widths {
		if i == len(p.widths)-1 && !p.right[i] {
			n = min(n, maxRule)
		}
		row = append(row, strings.Repeat("─", n))
	}
	return row
}

// fitColumns determines the widths of the columns and how many fit. Numbers, times, ids and addresses are
// shown in full or not at all. Later pages have the columns of the first one, wider if necessary and
// possible.
func (p *Table) fitColumns() {
	natural, least := make([]int, len(p.columns)), make([]int, len(p.columns))
	for i, c := range p.columns {
		natural[i] = max(1, Width(c))
		prose := false
		for _, cells := range p.cells {
			n := Width(cells[i])
			natural[i] = max(natural[i], n)
			prose = prose || n > minText && (n > 2*minText || strings.Contains(cells[i], " ") && !isTime(cells[i]))
		}
		if least[i] = natural[i]; prose {
			least[i] = min(minText, natural[i])
		}
		if i < len(p.widths) {
			natural[i] = max(natural[i], p.widths[i]) // of earlier pages
		}
	}
	shown := len(p.columns)
	if p.widths != nil {
		shown = len(p.widths)
	}
	widths := natural
	if !p.options.Wide {
		widths = fitWidths(natural[:shown], least[:shown], p.options.Screen)
	}
	if len(widths) == shown || p.widths == nil {
		p.widths = widths
	}
}

// fitWidths returns the widths of the columns that fit on a screen, from the left. If not even one fits,
// it is clipped. The remaining width goes to columns that need more.
func fitWidths(natural, least []int, screen int) (widths []int) {
	left := screen + len(gap)
	for i, n := range least {
		if i > 0 && n+len(gap) > left {
			break
		}
		n = max(1, min(n, screen))
		widths, left = append(widths, n), left-n-len(gap)
	}
	for wanted := true; wanted && left > 0; {
		wanted = false
		for i := range widths {
			if widths[i] < natural[i] && left > 0 {
				widths[i], left, wanted = widths[i]+1, left-1, true
			}
		}
	}
	return widths
}

// isTime reports whether a cell is a time in the format of [formatValue].
func isTime(cell string) bool {
	return len(cell) >= len(timeForm) && cell[4] == '-' && cell[10] == ' ' && cell[13] == ':'
}

// newMarkdown returns a printer of a table in GitHub's Markdown.
func newMarkdown(w io.Writer, zone *time.Location, columns []string) (Printer, error) {
	var header strings.Builder
	for _, c := range columns {
		header.WriteString("| " + inMarkdown(Clip(c, maxCell)) + " ")
	}
	_, err := fmt.Fprintf(w, "%s|\n|%s\n", &header, strings.Repeat(" --- |", len(columns)))
	return rowPrinter(func(values []any) error {
		var row strings.Builder
		for i, v := range values {
			cell := ""
			if v != nil {
				cell = inMarkdown(formatValue(v, zone))
			}
			if address, _ := v.(string); isLink(columns[i]) && webAddress(address) != "" {
				cell = "<" + address + ">"
			}
			row.WriteString("| " + cell + " ")
		}
		_, err := fmt.Fprintf(w, "%s|\n", &row)
		return err
	}), err
}

// markdownText escapes markup in a text.
var markdownText = strings.NewReplacer(`\`, `\\`, "`", "\\`", `*`, `\*`, `[`, `\[`, `]`, `\]`, `<`, `&lt;`, `&`,
	`&amp;`, `|`, `\|`)

func inMarkdown(cell string) string { return markdownText.Replace(cell) }

// newLines returns a printer of each value in full on its own line, with a blank line between rows.
func newLines(w io.Writer, zone *time.Location, columns []string) Printer {
	longest, between := 0, ""
	for _, c := range columns {
		longest = max(longest, Width(Clip(c, maxCell)))
	}
	return rowPrinter(func(values []any) error {
		out := between
		for i, v := range values {
			name := Clip(columns[i], maxCell)
			out += fmt.Sprintf("%s%s = %s\n", strings.Repeat(" ", longest-Width(name)), name, formatValue(v, zone))
		}
		between = "\n"
		_, err := io.WriteString(w, out)
		return err
	})
}
