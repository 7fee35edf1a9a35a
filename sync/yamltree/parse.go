package yamltree

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Limits of a file. An alias repeats what it refers to: a few lines can mean a billion nodes.
const (
	MaxBytes = 1 << 20 // larger files are not read
	maxNodes = 100_000
	maxDepth = 64
)

// Parse parses the text into a tree, and returns its root. It returns nil for an empty file, and after a
// mistake that it has reported.
func (f *File) Parse() *Node {
	if !f.isReadable() {
		return nil
	}
	documents := yaml.NewDecoder(strings.NewReader(strings.Join(f.lines, "\n")))
	r := reader{file: f, left: maxNodes}
	var root *Node
	for {
		var doc yaml.Node
		err := documents.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return root
		case err != nil:
			f.reportSyntax(err)
			return nil
		case isAbsent(doc.Content[0]):
		case root != nil:
			f.Report(doc.Content[0].Line, doc.Content[0].Column, "a second YAML document begins here",
				"keep one document in the file and remove the line ---")
			return root
		default:
			root = r.readNode(doc.Content[0], "", 0)
		}
	}
}

// isReadable reports whether the text is not too long, and consists of characters that YAML allows and an
// editor shows.
func (f *File) isReadable() bool {
	if len(f.src) > MaxBytes {
		f.Report(1, 1, fmt.Sprintf("the file has %d bytes, more than the limit of %d", len(f.src), MaxBytes), "")
		return false
	}
	for i, line := range f.lines {
		at := strings.IndexFunc(line, isForbidden)
		if at < 0 {
			continue
		}
		column := utf8.RuneCountInString(line[:at]) + 1
		if r, _ := utf8.DecodeRuneInString(line[at:]); r != utf8.RuneError {
			f.Report(i+1, column, fmt.Sprintf("the character %U is not allowed here", r),
				fmt.Sprintf("remove it, or write it as \"\\u%04X\" between double quotes", r))
		} else if utf8.Valid(f.src) {
			f.Report(i+1, column, "U+FFFD stands for a character that was lost", "write the text again")
		} else {
			f.Report(i+1, column, "not UTF-8 text", "save the file as UTF-8")
		}
		return false
	}
	return true
}

// isForbidden reports whether a character must not stand in the file: control characters, line ends that only
// some editors and parsers take for ones, and byte order marks.
func isForbidden(r rune) bool {
	switch r {
	case '\t':
		return false
	case 0x85, 0x2028, 0x2029, 0xFEFF, utf8.RuneError, 0x7F:
		return true
	}
	return r < ' ' || 0x80 <= r && r < 0xA0
}

// reportSyntax reports the parser's error, which quotes nothing of the file but the name of an anchor.
func (f *File) reportSyntax(err error) {
	wrong, ok := errors.AsType[*yaml.LoadError](err)
	if !ok || wrong.Mark.Line == 0 {
		f.Report(1, 1, "not YAML: "+err.Error(), "")
		return
	}
	line, column, at := min(wrong.Mark.Line, len(f.lines)), wrong.Mark.Column, ""
	if line == wrong.Mark.Line {
		letters := []rune(f.lines[line-1])
		at = string(letters[min(max(column-1, 0), len(letters)):])
	} else { // the end of the file
		column = 1
	}
	hint := ""
	switch text := f.lines[line-1]; {
	case strings.HasPrefix(text, "%YAML"):
		hint = "remove this line"
	case strings.HasPrefix(at, "\t"), strings.HasPrefix(strings.TrimLeft(text, " "), "\t"):
		hint = "indent with spaces, not with tabs"
	case at != "" && strings.ContainsRune("@`%", rune(at[0])):
		hint = fmt.Sprintf("put a value that begins with %c between quotes", at[0])
	case strings.Contains(wrong.Message, "anchor"), strings.Contains(wrong.Message, "alphabetic"):
		hint = "put a value that begins with * between quotes"
	case strings.Contains(text, "${command: "):
		hint = "put ${command: …} between quotes"
	case strings.Contains(text, "${") && strings.ContainsAny(text, "{["):
		hint = "within { } or [ ] put ${…} between quotes"
	}
	f.Report(line, column, "not YAML: "+wrong.Message, hint)
}

// reader builds nodes from the parser's tree. It resolves aliases and merges, and drops keys that begin
// with x- once their anchors are known.
type reader struct {
	file *File
	open []*yaml.Node // the aliased values that are being resolved
	left int          // number of nodes that may still be built
}

func (r *reader) readNode(from *yaml.Node, at string, depth int) *Node {
	n := &Node{Kind: Null, path: at, Line: from.Line, Column: from.Column, file: r.file}
	r.left--
	switch {
	case r.left < 0:
		if r.left == -1 {
			n.RefuseWithHint("move long lists into files, as in {file: topics.txt}, or jobs into another job file "+
				"with its own data folder", "the file has more than %d values, counting each use of an alias", maxNodes)
		}
		return n
	case depth > maxDepth:
		n.Refuse("nested more than %d levels deep", maxDepth)
		return n
	case from.Style&yaml.TaggedStyle != 0 && from.Tag != "!!str":
		n.Refuse("YAML tags such as %s are not supported", from.Tag)
		return n
	}
	switch from.Kind {
	case yaml.MappingNode:
		r.readMapping(n, from.Content, depth)
	case yaml.SequenceNode:
		n.Kind = List
		for _, item := range from.Content {
			n.Items = append(n.Items, r.readNode(item, at, depth+1))
		}
	case yaml.AliasNode:
		return r.readAlias(n, from, depth)
	default:
		n.Raw, n.Text, n.Kind = from.Value, from.Value, Text
		if n.plain = from.Style&^yaml.FlowStyle == 0; n.plain {
			n.Kind = KindOf(n.Raw)
		}
	}
	return n
}

// isAbsent reports whether a value is not written at all.
func isAbsent(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Style == 0 && n.Value == "" }

func (r *reader) readMapping(n *Node, pairs []*yaml.Node, depth int) {
	n.Kind = Mapping
	var merged []*Node
	lines := map[string]int{} // lines of the first occurrence of each key
	for pair := range slices.Chunk(pairs, 2) {
		if pair[0].Tag == "!!merge" {
			merged = append(merged, r.readNode(pair[1], n.path, depth+1))
			continue
		}
		key := r.readNode(pair[0], n.path, depth+1)
		if key.Kind == List || key.Kind == Mapping {
			key.Refuse("a key must be a word, got %s", key.Kind)
			continue
		}
		key.path = addKey(n.path, key.Text)
		value := r.readNode(pair[1], key.path, depth+1)
		value.Key = key
		if isAbsent(pair[1]) {
			value.Line, value.Column = key.Line, key.Column // an absent value has no position of its own
		}
		if first, twice := lines[key.Text]; twice {
			key.Refuse("duplicate key, first in line %d", first)
			continue
		}
		lines[key.Text] = key.Line
		if !strings.HasPrefix(key.Text, "x-") {
			n.Entries = append(n.Entries, Entry{key, value})
		}
	}
	for _, from := range merged {
		r.mergeEntries(n, from)
	}
}

// mergeEntries adds the entries of `<<: *name` or `<<: [*a, *b]` that n does not have yet.
func (r *reader) mergeEntries(n, from *Node) {
	switch from.Kind {
	case Mapping:
		for _, e := range from.Entries {
			if n.Get(e.Key.Text) == nil {
				n.Entries = append(n.Entries, e)
			}
		}
	case List:
		for _, item := range from.Items {
			r.mergeEntries(n, item)
		}
	default:
		from.Refuse("must be a mapping to be merged with <<, got %s", from.Kind)
	}
}

// readAlias builds the node that the alias names, under the path where it is used.
func (r *reader) readAlias(n *Node, alias *yaml.Node, depth int) *Node {
	if slices.Contains(r.open, alias.Alias) {
		n.Refuse("the alias *%s refers to itself", alias.Value)
		return n
	}
	r.open = append(r.open, alias.Alias)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	return r.readNode(alias.Alias, n.path, depth+1)
}
