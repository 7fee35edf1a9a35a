package database

import (
	"slices"

	"outlierd/internal/lazyregexp"
	"outlierd/schema"
)

// View is a view that is created in the file together with the tables that it reads.
type View struct {
	Name    string // with its schema: "ops.query_yield"
	Comment string
	Columns []ViewColumn // in the order of the SELECT
	SQL     string       // one SELECT, in which tables have their schema: main.outliers
}

// ViewColumn is a column of a view. Comment gives its meaning and unit.
type ViewColumn struct{ Name, Comment string }

// columnsOf returns columns that a view has as they are in a table.
func columnsOf(t *schema.Table, names ...string) (all []ViewColumn) {
	for _, name := range names {
		at := slices.IndexFunc(t.Columns, func(c schema.Column) bool { return c.Name == name })
		all = append(all, ViewColumn{name, t.Columns[at].Comment})
	}
	return all
}

// Views returns all views: those of the data, and those of the operations tables, which show what
// credits were spent on, what searches found and what people marked.
func Views() []View {
	return []View{
		growth, growthCurve, newThisWeek, weeklyTop, scores, recurrence, titleChanges,
		leaderboard, oneHitChannels, followed, gone,
		commentSearch, commentsSeen, transcriptSearch, freshness(),
		coverage, saturation, queryYield, spendByDay, markedVideos,
	}
}

// tableOf matches a table in the SQL of a view.
var tableOf = lazyregexp.New(`\b(?:main\.|(ops\.))"?(\w+)`)

// viewsOf returns the views that read only these tables.
func viewsOf(tables []*schema.Table) []View {
	known := map[string]bool{}
	for _, t := range tables {
		known[t.Name] = true
	}
	return slices.DeleteFunc(Views(), func(v View) bool {
		read := tableOf().FindAllStringSubmatch(v.SQL, -1)
		return slices.ContainsFunc(read, func(m []string) bool { return !known[m[1]+m[2]] })
	})
}
