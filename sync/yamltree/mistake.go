package yamltree

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"outlierd/internal/excerpt"
)

// Place is where a key or a value stands.
type Place struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // from 1, in characters
}

// String returns the place in the form that editors follow: "jobs.yaml:7:12". It has no control characters, which names
// of files may have.
func (p Place) String() string {
	return fmt.Sprintf("%s:%d:%d", strings.Map(replaceControl, p.File), p.Line, p.Column)
}

// Mistake is one error in the file, with its position.
type Mistake struct {
	Place          // of the offending key or value
	Message string `json:"message"`        // begins with the path of the key: "jobs.coffee.search.pages: …"
	Hint    string `json:"hint,omitempty"` // what to do, if known: "did you mean schedule?"
	Excerpt string `json:"-"`              // the line before, the line, and a caret below the column
}

// String returns the mistake without its excerpt: "jobs.yaml:7:12: message; hint".
func (m Mistake) String() string {
	text := m.Place.String() + ": " + m.Message
	if m.Hint != "" {
		text += "; " + m.Hint
	}
	return text
}

// Mistakes has all mistakes of a file in the order of their positions. Returned as an error, it has at
// least one.
type Mistakes []Mistake

// Error returns all mistakes with their excerpts.
func (ms Mistakes) Error() string {
	var b strings.Builder
	for _, m := range ms {
		b.WriteString(m.String())
		b.WriteString("\n")
		b.WriteString(m.Excerpt)
	}
	return b.String()
}

// sortByPlace returns the mistakes by file, in the order of their positions, without duplicates.
func (ms Mistakes) sortByPlace() Mistakes {
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms, func(a, b Mistake) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(ms)
}

// Mistake returns a mistake of f at a position, for callers that find it later. It does not add it to f.
func (f *File) Mistake(line, column int, message, hint string) Mistake {
	line, column = max(line, 1), max(column, 1)
	return Mistake{
		Place:   Place{f.name, line, column},
		Message: strings.Map(replaceControl, message), Hint: strings.Map(replaceControl, hint),
		Excerpt: f.showLines(line, column),
	}
}

// Report adds a mistake at a position.
func (f *File) Report(line, column int, message, hint string) {
	f.Add(f.Mistake(line, column, message, hint))
}

// Add adds a mistake of f or of a file that belongs to it.
func (f *File) Add(m Mistake) { f.found.mistakes = append(f.found.mistakes, m) }

// Refuse reports a mistake in n's value, and marks n as wrong, so that only one mistake is reported for
// it.
func (n *Node) Refuse(format string, args ...any) {
	n.RefuseWithHint("", format, args...)
}

// RefuseWithHint is [Node.Refuse] with a hint.
func (n *Node) RefuseWithHint(hint, format string, args ...any) {
	n.Wrong = true
	n.file.Add(n.mistake(hint, format, args...))
}

// mistake returns a mistake in n's value.
func (n *Node) mistake(hint, format string, args ...any) Mistake {
	message := fmt.Sprintf(format, args...)
	if n.path != "" {
		message = n.path + ": " + message
	}
	return n.file.Mistake(n.Line, n.Column, message, hint)
}

// RefuseQuoting is [Node.Refuse] with a message that may quote n's value. If the value came from outside
// the file, it may be a secret: then it is quoted as written, and no message is shown that has a part of it.
func (n *Node) RefuseQuoting(words string) {
	if n.FromOutside() {
		words = strings.ReplaceAll(words, strconv.Quote(n.Text), n.Shown())
		rest := strings.ReplaceAll(words, n.Shown(), "")
		shows := func(word string) bool { return len(word) > 1 && strings.Contains(n.Text, word) }
		if slices.ContainsFunc(strings.FieldsFunc(rest, isBetweenWords), shows) {
			words = "the value of " + n.Shown() + " is not valid here"
		}
	}
	n.Refuse("%s", words)
}

func isBetweenWords(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// Missing reports that a mapping lacks a key.
func (n *Node) Missing(key, hint string) { n.file.Add(n.Head().mistake(hint, "%s is missing", key)) }

// Warn reports something in n that is allowed but probably not intended.
func (n *Node) Warn(hint, format string, args ...any) {
	n.file.found.warnings = append(n.file.found.warnings, n.mistake(hint, format, args...))
}

// excerptWidth is the maximum number of characters of a line in an excerpt, including the mark of a cut.
const excerptWidth = 101

// showLines returns a line, the line before it unless that is blank, and a caret:
//
//	6 |   search:
//	7 |     pages: none
//	  |            ^
func (f *File) showLines(line, column int) string {
	shown := f.shown()
	if line > len(shown) || strings.TrimSpace(shown[line-1]) == "" {
		return ""
	}
	skip := 0
	if column >= excerptWidth { // the caret must not point at the mark of the cut
		skip = column - excerptWidth*3/4
	}
	var b strings.Builder
	if line > 1 {
		if before := skipRunes(shown[line-2], skip); before != "" {
			fmt.Fprintf(&b, "%4d | %s\n", line-1, before)
		}
	}
	fmt.Fprintf(&b, "%4d | %s\n", line, skipRunes(shown[line-1], skip))
	fmt.Fprintf(&b, "     | %*s\n", column-skip, "^")
	return b.String()
}

// skipRunes returns the part of a line that begins skip characters into it.
func skipRunes(line string, skip int) string {
	for ; skip > 0 && line != ""; skip-- {
		_, size := utf8.DecodeRuneInString(line)
		line = line[size:]
	}
	return strings.TrimRight(excerpt.Runes(line, excerptWidth), " ")
}
