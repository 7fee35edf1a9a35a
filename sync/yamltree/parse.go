package yamltree

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a file. The parser needs time and memory that grow faster than its input, and an alias
// repeats what it refers to: a few lines can mean a billion nodes.
const (
	MaxBytes  = 1 << 20 // larger files are not read
	maxTokens = 50_000
	maxNodes  = 100_000
	maxDepth  = 64
)

// Parse parses the text into a tree, and returns its root. It returns nil for an empty file, and after a
// mistake that it has reported.
func (f *File) Parse() *Node {
	if !f.readable() {
		return nil
	}
	tokens := lexer.Tokenize(strings.Join(f.lines, "\n"))
	if !f.bounded(tokens) {
		return nil
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.syntax(err)
		return nil
	}
	r := reader{file: f, left: maxNodes, anchors: map[string]ast.Node{}}
	var root *Node
	for _, doc := range parsed.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.DirectiveType:
		case root != nil:
			at := doc.Body.GetToken().Position
			f.Report(at.Line, at.Column, "a second YAML document begins here",
				"keep one document in the file and remove the line ---")
			return root
		default:
			root = r.node(doc.Body, "", 0)
		}
	}
	return root
}

// readable reports whether the text is not too long, and valid UTF-8.
func (f *File) readable() bool {
	switch {
	case len(f.src) > MaxBytes:
		message := fmt.Sprintf("the file has %d bytes, more than the limit of %d", len(f.src), MaxBytes)
		f.Report(1, 1, message, "")
	case !utf8.Valid(f.src):
		for i, line := range f.lines {
			if before, _, found := strings.Cut(line, "\uFFFD"); found {
				f.Report(i+1, utf8.RuneCountInString(before)+1, "not UTF-8 text", "save the file as UTF-8")
				break
			}
		}
	default:
		return true
	}
	return false
}

// bounded checks the limits of size and depth by the tokens, because a tree with too many or too deep
// nodes must not be built.
func (f *File) bounded(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		message := fmt.Sprintf("the file has more than %d words and signs", maxTokens)
		f.Report(1, 1, message,
			"move long lists into files, as in {file: topics.txt}, or jobs into another job file with its "+
				"own data folder")
		return false
	}
	var columns []int // where the open block collections begin
	flow, line := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(flow-1, 0)
		}
		if flow == 0 &&
			(t.Position.Line != line || t.Type == token.SequenceEntryType || t.Type == token.MappingKeyType) {
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}
		line = t.Position.Line
		if len(columns)+flow > maxDepth {
			message := fmt.Sprintf("nested more than %d levels deep", maxDepth)
			f.Report(t.Position.Line, t.Position.Column, message, "")
			return false
		}
	}
	return true
}

// syntax reports the parser's error, which quotes nothing of the file.
func (f *File) syntax(err error) {
	wrong, ok := errors.AsType[*yaml.SyntaxError](err)
	if !ok || wrong.Token == nil || wrong.Token.Position == nil {
		f.Report(1, 1, "not YAML: "+err.Error(), "")
		return
	}
	hint := ""
	switch at := wrong.Token; {
	case strings.HasPrefix(strings.TrimSpace(at.Origin), "*"):
		hint = "put a value that begins with * between quotes"
	case strings.HasPrefix(strings.TrimSpace(at.Origin), "@"):
		hint = "put a value that begins with @ between quotes"
	case strings.Contains(at.Origin, "\t"):
		hint = "indent with spaces, not with tabs"
	case at.Position.Line <= len(f.lines) && strings.Contains(f.lines[at.Position.Line-1], "${"):
		hint = "within { } or [ ] put ${…} between quotes"
	}
	at, message := wrong.Token.Position, strings.ReplaceAll(wrong.Message, "\t", `\t`)
	f.Report(at.Line, at.Column, "not YAML: "+message, hint)
}

// reader builds nodes from the parser's tree. It resolves aliases and merges, and drops keys that begin
// with x- once their anchors are known.
type reader struct {
	file    *File
	anchors map[string]ast.Node
	open    []string // the aliases that are being resolved
	left    int      // number of nodes that may still be built

	line    int // the line in letters, cached because a line may have thousands of values
	letters []rune
}

func (r *reader) node(from ast.Node, at path, depth int) *Node {
	n := r.place(from, at)
	r.left--
	switch {
	case r.left < 0:
		if r.left == -1 {
			n.Refuse("aliases make the file mean more than %d values", maxNodes)
		}
		return n
	case depth > maxDepth:
		n.Refuse("aliases nest more than %d levels deep", maxDepth)
		return n
	}
	switch v := from.(type) {
	case *ast.MappingNode:
		r.mapping(n, v.Values, depth)
	case *ast.MappingValueNode:
		r.mapping(n, []*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		n.Kind = List
		for _, item := range v.Values {
			n.Items = append(n.Items, r.node(item, at, depth+1))
		}
	case *ast.AnchorNode:
		r.anchors[v.Name.GetToken().Value] = v.Value
		return r.node(v.Value, at, depth)
	case *ast.AliasNode:
		return r.alias(n, v, depth)
	case *ast.TagNode:
		return r.tag(n, v, depth)
	default:
		r.scalar(n, from)
	}
	return n
}

// place returns an empty node with its position.
func (r *reader) place(from ast.Node, at path) *Node {
	t := from.GetToken()
	if m, ok := from.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken()
	}
	if m, ok := from.(*ast.MappingValueNode); ok {
		t = m.Key.GetToken()
	}
	return &Node{Kind: Null, path: at, Line: t.Position.Line, Column: r.column(t), file: r.file}
}

// column returns the column at which a token begins. Blanks after an unquoted word shift the position
// from the lexer, so the column is checked against the line itself.
func (r *reader) column(t *token.Token) int {
	first, _, _ := strings.Cut(t.Value, " ")
	if t.Type != token.StringType || t.Position.Line > len(r.file.lines) || first == "" {
		return t.Position.Column
	}
	if r.line != t.Position.Line {
		r.line, r.letters = t.Position.Line, []rune(r.file.lines[t.Position.Line-1])
	}
	line := r.letters
	for c := min(t.Position.Column, len(line)); c > 0; c-- {
		if strings.HasPrefix(string(line[c-1:min(len(line), c-1+len(first))]), first) {
			return c
		}
	}
	return t.Position.Column
}

func (r *reader) mapping(n *Node, values []*ast.MappingValueNode, depth int) {
	n.Kind = Mapping
	var merged []*Node
	lines := map[string]int{} // lines of the first occurrence of each key
	for _, v := range values {
		if v.Key.IsMergeKey() {
			merged = append(merged, r.node(v.Value, n.path, depth+1))
			continue
		}
		key := r.node(v.Key, n.path, depth+1)
		if key.Kind == List || key.Kind == Mapping {
			key.Refuse("a key must be a word, got %s", key.Kind)
			continue
		}
		key.path = n.path.key(key.Text)
		value := r.node(v.Value, key.path, depth+1)
		value.Key = key
		if value.Kind == Null && value.Raw == "" {
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
		r.merge(n, from)
	}
}

// merge adds the entries of `<<: *name` or `<<: [*a, *b]` that n does not have yet.
func (r *reader) merge(n, from *Node) {
	switch from.Kind {
	case Mapping:
		for _, e := range from.Entries {
			if n.Get(e.Key.Text) == nil {
				n.Entries = append(n.Entries, e)
			}
		}
	case List:
		for _, item := range from.Items {
			r.merge(n, item)
		}
	default:
		from.Refuse("must be a mapping to be merged with <<, got %s", from.Kind)
	}
}

// alias builds the node that the alias names, under the path where it is used.
func (r *reader) alias(n *Node, v *ast.AliasNode, depth int) *Node {
	name := v.Value.GetToken().Value
	target, known := r.anchors[name]
	if !known {
		n.Refuse("the anchor &%s is not defined before this alias", name)
		return n
	}
	for _, open := range r.open {
		if open == name {
			n.Refuse("the alias *%s refers to itself", name)
			return n
		}
	}
	r.open = append(r.open, name)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	return r.node(target, n.path, depth+1)
}

// tag allows !!str, which makes text of a number, and nothing else.
func (r *reader) tag(n *Node, v *ast.TagNode, depth int) *Node {
	if v.GetToken().Value != "!!str" || v.Value == nil {
		n.Refuse("YAML tags such as %s are not supported", v.GetToken().Value)
		return n
	}
	value := r.node(v.Value, n.path, depth+1)
	if value.Kind != List && value.Kind != Mapping {
		value.Kind, value.plain = Text, false
	}
	return value
}

func (r *reader) scalar(n *Node, from ast.Node) {
	t := from.GetToken()
	if v, ok := from.(*ast.LiteralNode); ok {
		n.Kind, n.Raw = Text, v.Value.Value
		n.Text = n.Raw
		return
	}
	switch t.Type {
	case token.ImplicitNullType:
		n.plain = true
		return
	case token.SingleQuoteType, token.DoubleQuoteType:
		n.Kind, n.Raw = Text, t.Value
	default:
		n.plain, n.Raw = true, t.Value
		n.Kind = KindOf(n.Raw)
	}
	n.Text = n.Raw
}
