package job

import (
	"slices"

	"outlierd/sync/yamltree"
)

// Question is one entry of `questions`: named SQL on the page.
type Question struct {
	Name, SQL string

	At yamltree.Place // of SQL
}

func readQuestions(c *Config, n *yamltree.Node) {
	if !n.Has(yamltree.Mapping) {
		return
	}
	for _, e := range n.Entries {
		if e.Value.Has(yamltree.Text) {
			needsTables(c, e.Value)
			c.Questions = append(c.Questions, Question{e.Key.Text, e.Value.Text, e.Value.At()})
		}
	}
}

// needsTables refuses SQL if there is no DuckDB file to query.
func needsTables(c *Config, sql *yamltree.Node) {
	if !slices.ContainsFunc(c.Sinks, func(s Sink) bool { return s.Kind == SinkDuckDB }) {
		sql.Head().Refuse("needs a duckdb sink, whose file it reads")
	}
}
