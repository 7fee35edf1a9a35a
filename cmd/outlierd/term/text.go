// Package term formats results for people and for programs: tables, JSON, CSV, Parquet and Excel, a
// block of progress, a question, and text that cannot act on a terminal.
package term

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// Plain makes a text safe for a terminal. Titles and comments are untrusted: a control
// character in one could move the cursor or worse.
func Plain(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r): // line ends of every kind among them
			return ' '
		case isUnsafe(r):
			return '\ufffd'
		}
		return r
	}, s)
}

// isUnsafe reports whether a character acts on a terminal instead of being shown, or reverses the
// direction of the text after it.
func isUnsafe(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// runes has the widths of characters: the same ones whatever LANG says.
var runes = &runewidth.Condition{}

// Width returns the number of terminal columns that a text without control characters occupies.
func Width(s string) (columns int) {
	for _, r := range s {
		columns += runes.RuneWidth(r)
	}
	return columns
}

// Clip makes a text safe for a terminal and shortens it to at most the given number of columns.
func Clip(s string, columns int) string {
	if columns <= 0 {
		return ""
	}
	s = Plain(s)
	if Width(s) <= columns {
		return s
	}
	left := columns - 1
	for i, r := range s {
		if left -= runes.RuneWidth(r); left < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// Pad appends spaces to a text up to the given number of columns.
func Pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-Width(s)))
}

// Count formats a number of things, such as "1 page" or "3 pages".
func Count[N ~int | ~int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Wrap joins facts into an indented line that ends in a newline. If columns is not 0, it wraps the line
// to stay below that width.
func Wrap(facts []string, columns int) string {
	const indent, between = "  ", " · "
	var out strings.Builder
	line := indent + facts[0]
	for _, fact := range facts[1:] {
		if next := line + between + fact; columns == 0 || Width(next) < columns {
			line = next
			continue
		}
		out.WriteString(line + "\n")
		line = indent + fact
	}
	return out.String() + line + "\n"
}

// Duration formats a duration for people: seconds up to two minutes, then minutes, then hours.
func Duration(d time.Duration) string {
	switch {
	case d.Round(time.Second) < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d.Round(time.Minute) < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// BarWidth is the width of a [Bar] in columns.
const BarWidth = 15

// Bar draws the share n/of.
func Bar(n, of int) string {
	filled := 0
	if of > 0 {
		filled = min(BarWidth, BarWidth*n/of)
	}
	return strings.Repeat("█", filled) + strings.Repeat("░", BarWidth-filled)
}

// Is reports whether a reader or writer is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Columns returns the width of the terminal w; 0 if w is not a terminal. Windows can be resized, so callers get it each
// time.
func Columns(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err == nil && columns <= 0 { // a terminal that does not know its size
		return DefaultScreen
	}
	return columns
}

// An Asker asks the user at a terminal.
type Asker struct {
	In  io.Reader
	Out io.Writer
}

// Yes asks a question and reports whether the answer is yes. No input counts as no.
func (a *Asker) Yes(question string) (bool, error) {
	answer, err := a.Line(question + " [y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// Line asks a question and returns the answer, a line without the space around it.
func (a *Asker) Line(question string) (string, error) {
	fmt.Fprintf(a.Out, "%s ", question)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(answer), nil
}
