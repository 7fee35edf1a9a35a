package job

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Mistake is one thing that is wrong with the file, and where.
type Mistake struct {
	File         string
	Line, Column int    // of the offending key or value, from 1; columns count characters
	Message      string // begins with the path of the key: "jobs.coffee.search.pages: …"
	Hint         string // the remedy, if there is one to name: "did you mean schedule?"
	Excerpt      string // the line before, the line, and a caret below the column
}

// String is the mistake without its excerpt: "jobs.yaml:7:12: message; hint".
func (m Mistake) String() string {
	text := fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Column, m.Message)
	if m.Hint != "" {
		text += "; " + m.Hint
	}
	return text
}

// Mistakes are all mistakes of a file in the order of their positions. There is at
// least one in every Mistakes that is returned as an error.
type Mistakes []Mistake

// Error prints every mistake together with its excerpt.
func (ms Mistakes) Error() string {
	var b strings.Builder
	for _, m := range ms {
		b.WriteString(m.String())
		b.WriteString("\n")
		b.WriteString(m.Excerpt)
	}
	return b.String()
}

// source is the text of a file and what has been found wrong with it so far.
type source struct {
	path     string
	lines    []string // as written, without line ends
	shown    []string // the same, fit for a terminal and without keys
	found    Mistakes
	warnings Mistakes
}

func newSource(path string, text string) *source {
	lines := strings.Split(text, "\n")
	s := &source{path: path, lines: lines, shown: withoutKeys(lines)}
	for i, line := range s.shown {
		s.shown[i] = strings.Map(visible, line)
	}
	return s
}

// visible keeps whoever wrote the file from drawing on the reader's terminal. Every
// character stays one character, so that carets stay where they belong.
func visible(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case unicode.IsGraphic(r):
		return r
	}
	return '·'
}

// at reports a mistake at a position. The same words at the same place count once.
func (s *source) at(line, column int, message, hint string) {
	s.found = append(s.found, s.mistake(line, column, message, hint))
}

func (s *source) mistake(line, column int, message, hint string) Mistake {
	line, column = max(line, 1), max(column, 1)
	return Mistake{
		File: s.path, Line: line, Column: column,
		Message: strings.Map(visible, message), Hint: strings.Map(visible, hint),
		Excerpt: s.excerpt(line, column),
	}
}

// warn reports what is allowed in n but hardly meant.
func (s *source) warn(n *node, hint, format string, args ...any) {
	s.warnings = append(s.warnings, n.home(s).mistake(n.line, n.column, n.path.said()+fmt.Sprintf(format, args...), hint))
}

// refuse reports a mistake in n's value. From then on n is wrong, and nothing that
// reads it complains a second time.
func (s *source) refuse(n *node, format string, args ...any) {
	s.refuseWithHint(n, "", format, args...)
}

func (s *source) refuseWithHint(n *node, hint, format string, args ...any) {
	n.wrong = true
	n.home(s).at(n.line, n.column, n.path.said()+fmt.Sprintf(format, args...), hint)
}

// home is the text that n stands in, which for a job of the command line may be
// either of two; a node that was made up counts for s.
func (n *node) home(s *source) *source { return cmp.Or(n.from, s) }

// missing reports that a mapping lacks a key.
func (s *source) missing(n *node, key, hint string) {
	at := n.handle()
	at.home(s).at(at.line, at.column, n.path.said()+key+" is missing", hint)
}

// Mistake words what somebody else found wrong with the file, such as SQL that names
// no table, as all other mistakes are worded.
func (c *Config) Mistake(line, column int, message, hint string) Mistake {
	return newSource(c.Path, clean(c.src)).mistake(line, column, message, hint)
}

// tidy sorts mistakes by their places and leaves repetitions out.
func (ms Mistakes) tidy() Mistakes {
	slices.SortStableFunc(ms, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(ms)
}

// excerptWidth is how much of a long line is shown around a caret.
const excerptWidth = 100

// excerpt shows a line, the line before it unless that is blank, and a caret:
//
//	6 |   search:
//	7 |     pages: none
//	  |            ^
func (s *source) excerpt(line, column int) string {
	if line > len(s.shown) || strings.TrimSpace(s.shown[line-1]) == "" {
		return ""
	}
	skip := 0
	if column > excerptWidth {
		skip = column - excerptWidth*3/4
	}
	var b strings.Builder
	if line > 1 {
		if before := stretch(s.shown[line-2], skip); before != "" {
			fmt.Fprintf(&b, "%4d | %s\n", line-1, before)
		}
	}
	fmt.Fprintf(&b, "%4d | %s\n", line, stretch(s.shown[line-1], skip))
	fmt.Fprintf(&b, "     | %*s\n", column-skip, "^")
	return b.String()
}

// stretch is the part of a line that begins skip characters into it.
func stretch(line string, skip int) string {
	letters := []rune(line)
	letters = letters[min(skip, len(letters)):]
	if len(letters) > excerptWidth {
		letters = append(slices.Clone(letters[:excerptWidth]), '…')
	}
	return strings.TrimRight(string(letters), " ")
}

// keyLine finds what may be a secret in clear text: `key:` or `webhook:`, also quoted
// or within braces, and whatever follows it.
var keyLine = regexp.MustCompile(`^(.*?\b(?:key|webhook)["']?\s*:)(.*)$`)

// reference is a value that takes a key from outside and gives none away.
var reference = regexp.MustCompile(`^\s*["']?\$\{(?:file:)?[^}:]*(?::-)?\}["']?\s*[,}]?\s*(?:#.*)?$`)

// defaulted is a reference with a default, which gives one away.
var defaulted = regexp.MustCompile(`^\$\{[^}:]*:-[^}]+\}$`)

// userinfo is what an address has before its host, which may be a password.
var userinfo = regexp.MustCompile(`://[^/\s@"']*@`)

// urlLogin and urlQuery are the same of a `url:` that may be no address, and what follows it
// after a question mark, which may be a token.
var (
	urlLogin = regexp.MustCompile(`(\burl["']?\s*:\s*["']?(?:\w+://)?).*@`)
	urlQuery = regexp.MustCompile(`(\burl["']?\s*:\s*["']?[^\s"'?#]+[?#])[^\s"',}]+`)
)

// withoutKeys hides the user and password of addresses, and what follows `key:` unless it is
// a mere reference, together with the deeper lines below it, over which a text may go on. It works on bare lines, as
// there has to be an excerpt even of a file that is not YAML.
func withoutKeys(lines []string) []string {
	shown, hiding := slices.Clone(lines), -1
	for i, line := range lines {
		shown[i] = urlLogin.ReplaceAllString(line, "${1}********@")
		shown[i] = urlQuery.ReplaceAllString(shown[i], "${1}********")
		shown[i] = userinfo.ReplaceAllString(shown[i], "://********@")
		depth := len(line) - len(strings.TrimLeft(line, " "))
		if hiding >= 0 && (depth > hiding || strings.TrimSpace(line) == "") {
			shown[i] = "********"
			continue
		}
		hiding = -1
		if m := keyLine.FindStringSubmatch(shown[i]); m != nil && !reference.MatchString(m[2]) {
			shown[i] = m[1] + " ********"
			hiding = depth
		}
	}
	return shown
}
