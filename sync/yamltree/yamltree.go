// Package yamltree parses a YAML file into a tree of nodes with their positions, and reports
// mistakes in it. It does not interpret the content of the file.
//
// Reading has several steps. A value that one step has refused is not read by the next:
//
//	f := yamltree.New("jobs.yaml", src, hide) // hide: lines without secrets, for excerpts
//	root := f.Parse()                         // size, depth and aliases are bounded
//	schema.Check(root, variables)             // keys, ${…}, types, words and forms, by a JSON Schema
//	root.Get("timezone").Refuse("…")          // meaning, by the caller
//	f.Mistakes()                              // all of them, in the order of the file
//
// Every mistake has its line and column, the line itself and, where there is one, the
// remedy. No message shows a value that came from a variable or a file.
package yamltree

import (
	"strings"
	"sync"
	"unicode"
)

// File is the text of a file, with its mistakes and those of the files that belong to it.
type File struct {
	found *found

	name  string
	src   []byte
	lines []string // as written, without line ends
	hide  func(lines []string) []string
	shown func() []string // the lines, safe for a terminal and without secrets
}

// found is what was found in a file and in those that belong to it.
type found struct{ mistakes, warnings Mistakes }

// New returns a File with a name and the text src. hide returns the lines as excerpts may show them: the
// same number of lines, without secrets.
func New(name string, src []byte, hide func(lines []string) []string) *File {
	f := &File{found: &found{}, name: name, src: src, lines: strings.Split(plainLines(src), "\n"), hide: hide}
	f.shown = sync.OnceValue(func() []string { // most files have no mistakes
		shown := hide(f.lines)
		for i, line := range shown {
			shown[i] = strings.Map(replaceControl, line)
		}
		return shown
	})
	return f
}

// Part returns another file that belongs to f: what is found in one of them is found in both.
func (f *File) Part(name string, src []byte) *File {
	part := New(name, src, f.hide)
	part.found = f.found
	return part
}

// Mistakes returns the mistakes found so far, in the order of the file, or nil.
func (f *File) Mistakes() Mistakes { return f.found.mistakes.sortByPlace() }

// Warnings returns what is allowed but probably not intended, in the order of the file.
func (f *File) Warnings() Mistakes { return f.found.warnings.sortByPlace() }

// Forget drops all mistakes found so far.
func (f *File) Forget() { f.found.mistakes = nil }

// plainLines returns src with plain line ends and without a byte order mark.
func plainLines(src []byte) string {
	if len(src) > MaxBytes {
		src = nil
	}
	text := strings.TrimPrefix(strings.ToValidUTF8(string(src), "\uFFFD"), "\uFEFF")
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}

// replaceControl replaces control characters, which must not reach the reader's terminal. Every character stays
// one character, so that carets are at the right column.
func replaceControl(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case unicode.IsGraphic(r):
		return r
	}
	return '·'
}
