package job

import (
	"strings"
)

// origin reads where a list comes from, and the nodes of its members if it stands in
// the file itself.
func (b *builder) origin(n *node) (Source, []*node) {
	at := Source{Line: n.line, Column: n.column}
	if !n.has(mapping) {
		return at, n.members()
	}
	var from []entry
	for _, e := range n.entries {
		if e.key.text != "column" {
			from = append(from, e)
		}
	}
	column := n.get("column")
	switch {
	case len(from) > 1:
		b.refuse(from[1].key, "a list comes from one place: list, file or sql")
		return at, nil
	case len(from) == 0 || column != nil && from[0].key.text != "file":
		b.refuseWithHint(column.handle(), "write {file: channels.csv, column: channel}", "column names a column of a file")
		return at, nil
	case !from[0].value.has(text) || column != nil && !column.has(text):
		return at, nil
	}
	value := from[0].value
	switch from[0].key.text {
	case "list":
		return at, b.list(value)
	case "file":
		return Source{File: b.absolute(value.text), Field: column.textOr(""), Line: value.line, Column: value.column}, nil
	case "sql":
		return Source{SQL: b.sql(value), Line: value.line, Column: value.column}, nil
	}
	return at, nil
}

// sql is a query over the user's own tables, which are read from the DuckDB file.
func (b *builder) sql(n *node) string {
	for _, sink := range b.cfg.Sinks {
		if sink.Kind == SinkDuckDB {
			return n.text
		}
	}
	b.refuseWithHint(n, "add - duckdb: outliers.duckdb to sinks", "SQL reads the tables of the DuckDB file, and there is no duckdb sink")
	return ""
}

// list is the list that name names.
func (b *builder) list(name *node) []*node {
	lists := b.root.get("lists")
	if found := lists.get(name.text); found != nil {
		return found.members()
	}
	var known []string
	if lists != nil {
		for _, e := range lists.entries {
			known = append(known, e.key.text)
		}
	}
	b.refuseWithHint(name, didYouMean(name, Nearest(name.text, known)), "there is no list %s", name.shown())
	return nil
}

// loops reads for_each: each name with its values, in the order of the file.
func (b *builder) loops(job *node) []loop {
	n := job.get("for_each")
	if !n.has(mapping) {
		return nil
	}
	var loops []loop
	var lists [][]string
	for _, e := range n.entries {
		if !b.loopName(e.key) {
			continue
		}
		source, members := b.origin(e.value)
		l := loop{Loop: Loop{e.key.text, source}}
		if source.File != "" {
			for _, v := range b.readable(e.value.get("file"), source) {
				members = append(members, &node{kind: text, text: v.text, raw: v.text})
			}
		}
		l.values(members)
		if source.File == "" && l.tried != nil {
			l.Source.Values = l.tried
			lists = append(lists, l.tried)
		}
		loops = append(loops, l)
	}
	if product(lists) > MaxAsks {
		b.refuse(n.handle(), "makes more than %d combinations", MaxAsks)
	}
	return loops
}

// values takes the values that are known, each once.
func (l *loop) values(members []*node) {
	seen := map[string]bool{}
	for _, m := range members {
		if m.has(text, whole, number) && strings.TrimSpace(m.text) != "" && !seen[m.text] {
			seen[m.text] = true
			l.tried, l.members = append(l.tried, m.text), append(l.members, m)
		}
	}
}

// loopName refuses names that could never be filled in.
func (b *builder) loopName(key *node) bool {
	_, taken := b.env(key.text)
	switch {
	case !variableName.MatchString(key.text):
		b.refuse(key, "a name is made of letters, digits and _, and begins with no digit")
	case taken:
		b.refuseWithHint(key, "choose another name", "the environment variable %s is set, and would be what ${%s} means", key.text, key.text)
	default:
		return true
	}
	return false
}

// readable are the values of a file that n names. That it holds none may change, and is
// worth a warning only.
func (b *builder) readable(n *node, source Source) []value {
	values, err := source.values(n.shown())
	switch {
	case err != nil:
		b.foreign(n, err.Error())
	case len(values) == 0:
		b.warn(n, "", "the file %s holds no values", n.shown())
	}
	return values
}
