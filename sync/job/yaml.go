package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// What a file may ask of us. The parser needs time and memory that grow faster than
// its input, and an alias repeats what it names: a few lines can mean a billion nodes.
const (
	maxBytes  = 1 << 20
	maxTokens = 50_000
	maxNodes  = 100_000
	maxDepth  = 64
)

// read turns the text of a file into a tree, or reports why it cannot.
func (s *source) read(src string) *node {
	tokens := lexer.Tokenize(src)
	if !s.bounded(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		s.syntax(err)
		return nil
	}
	r := reader{source: s, left: maxNodes, anchors: map[string]ast.Node{}}
	var root *node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.DirectiveType:
		case root != nil:
			at := doc.Body.GetToken().Position
			s.at(at.Line, at.Column, "a second YAML document begins here", "keep one document in the file and remove the line ---")
			return root
		default:
			root = r.node(doc.Body, "", 0)
		}
	}
	return root
}

// bounded judges size and depth by the tokens alone, as building the tree is what
// must not be done with too many or too deep ones.
func (s *source) bounded(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		s.at(1, 1, fmt.Sprintf("the file has more than %d words and signs", maxTokens), "split it into several files")
		return false
	}
	var columns []int // where the block collections that are open begin
	flow, line := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow = max(flow-1, 0)
		}
		if flow == 0 && (t.Position.Line != line || t.Type == token.SequenceEntryType || t.Type == token.MappingKeyType) {
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}
		line = t.Position.Line
		if len(columns)+flow > maxDepth {
			s.at(t.Position.Line, t.Position.Column, fmt.Sprintf("nested more than %d levels deep", maxDepth), "")
			return false
		}
	}
	return true
}

// syntax reports what the parser said. Its words quote nothing of the file.
func (s *source) syntax(err error) {
	wrong, ok := errors.AsType[*yaml.SyntaxError](err)
	if !ok || wrong.Token == nil || wrong.Token.Position == nil {
		s.at(1, 1, "not YAML: "+err.Error(), "")
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
	case at.Position.Line <= len(s.lines) && strings.Contains(s.lines[at.Position.Line-1], "${"):
		hint = "within { } or [ ] put ${…} between quotes"
	}
	s.at(wrong.Token.Position.Line, wrong.Token.Position.Column, "not YAML: "+strings.ReplaceAll(wrong.Message, "\t", `\t`), hint)
}

// reader builds nodes out of the parser's tree: aliases and merges are resolved, and
// keys that begin with x- are dropped once their anchors are known.
type reader struct {
	*source
	anchors map[string]ast.Node
	open    []string // the aliases that are being resolved
	left    int      // how many nodes may still be built
}

func (r *reader) node(from ast.Node, at path, depth int) *node {
	n := r.place(from, at)
	r.left--
	switch {
	case r.left < 0:
		if r.left == -1 {
			r.refuse(n, "aliases make the file mean more than %d values", maxNodes)
		}
		return n
	case depth > maxDepth:
		r.refuse(n, "aliases nest more than %d levels deep", maxDepth)
		return n
	}
	switch v := from.(type) {
	case *ast.MappingNode:
		r.mapping(n, v.Values, depth)
	case *ast.MappingValueNode:
		r.mapping(n, []*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		n.kind = list
		for _, item := range v.Values {
			n.items = append(n.items, r.node(item, at, depth+1))
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

// place is an empty node that knows where it stands.
func (r *reader) place(from ast.Node, at path) *node {
	t := from.GetToken()
	if m, ok := from.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		t = m.Values[0].Key.GetToken()
	}
	if m, ok := from.(*ast.MappingValueNode); ok {
		t = m.Key.GetToken()
	}
	return &node{kind: null, path: at, line: t.Position.Line, column: r.column(t), from: r.source}
}

// column is where a token begins. Blanks after a plain word shift the position that
// the lexer gives it, so the column is confirmed by the line itself.
func (r *reader) column(t *token.Token) int {
	first, _, _ := strings.Cut(t.Value, " ")
	if t.Type != token.StringType || t.Position.Line > len(r.lines) || first == "" {
		return t.Position.Column
	}
	line := []rune(r.lines[t.Position.Line-1])
	for c := min(t.Position.Column, len(line)); c > 0; c-- {
		if strings.HasPrefix(string(line[c-1:min(len(line), c-1+len(first))]), first) {
			return c
		}
	}
	return t.Position.Column
}

func (r *reader) mapping(n *node, values []*ast.MappingValueNode, depth int) {
	n.kind = mapping
	var merged []*node
	lines := map[string]int{} // where each key was first seen
	for _, v := range values {
		if v.Key.IsMergeKey() {
			merged = append(merged, r.node(v.Value, n.path, depth+1))
			continue
		}
		key := r.node(v.Key, n.path, depth+1)
		if key.kind == list || key.kind == mapping {
			r.refuse(key, "a key has to be a word, not %s", key.kind)
			continue
		}
		key.path = n.path.key(key.text)
		value := r.node(v.Value, key.path, depth+1)
		value.head = key
		if value.kind == null && value.raw == "" {
			value.line, value.column = key.line, key.column // nothing has no place of its own
		}
		if first, twice := lines[key.text]; twice {
			r.refuse(key, "the key stands here a second time, first in line %d", first)
			continue
		}
		lines[key.text] = key.line
		if !strings.HasPrefix(key.text, "x-") {
			n.entries = append(n.entries, entry{key, value})
		}
	}
	for _, from := range merged {
		r.merge(n, from)
	}
}

// merge adds the entries of `<<: *name` or `<<: [*a, *b]` that n does not have yet.
func (r *reader) merge(n, from *node) {
	switch from.kind {
	case mapping:
		for _, e := range from.entries {
			if n.get(e.key.text) == nil {
				n.entries = append(n.entries, e)
			}
		}
	case list:
		for _, item := range from.items {
			r.merge(n, item)
		}
	default:
		r.refuse(from, "only a mapping can be merged with <<, not %s", from.kind)
	}
}

// alias builds what the alias names anew, under the path where it is used.
func (r *reader) alias(n *node, v *ast.AliasNode, depth int) *node {
	name := v.Value.GetToken().Value
	target, known := r.anchors[name]
	if !known {
		r.refuse(n, "no anchor &%s stands before this alias", name)
		return n
	}
	for _, open := range r.open {
		if open == name {
			r.refuse(n, "the alias *%s is part of what it names", name)
			return n
		}
	}
	r.open = append(r.open, name)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	return r.node(target, n.path, depth+1)
}

// tag allows !!str, which makes text of a number, and nothing else.
func (r *reader) tag(n *node, v *ast.TagNode, depth int) *node {
	if v.GetToken().Value != "!!str" || v.Value == nil {
		r.refuse(n, "YAML tags such as %s are not read here", v.GetToken().Value)
		return n
	}
	value := r.node(v.Value, n.path, depth+1)
	if value.kind != list && value.kind != mapping {
		value.kind, value.plain = text, false
	}
	return value
}

func (r *reader) scalar(n *node, from ast.Node) {
	t := from.GetToken()
	if v, ok := from.(*ast.LiteralNode); ok {
		n.kind, n.raw = text, v.Value.Value
		n.text = n.raw
		return
	}
	switch t.Type {
	case token.ImplicitNullType:
		n.plain = true
		return
	case token.SingleQuoteType, token.DoubleQuoteType:
		n.kind, n.raw = text, t.Value
	default:
		n.plain, n.raw = true, t.Value
		n.kind = kindOf(n.raw)
	}
	n.text = n.raw
}
