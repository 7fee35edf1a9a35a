package database

import (
	"slices"

	"outlierd/schema"
)

// View is a view that the files hold beside the tables that it reads.
type View struct {
	Name    string // with its schema: "ops.query_yield"
	Comment string
	Columns []ViewColumn // in the order of the SELECT
	SQL     string       // the SELECT

	reads []*schema.Table
}

// ViewColumn is what a column of a view means.
type ViewColumn struct{ Name, Comment string }

// Views lists the views: over the data, and over the operations, which answer what is asked of
// the money: what it brought, what it left, and when it went.
func Views() []View {
	return []View{
		growth, growthCurve, newThisWeek, weeklyTop, scores, recurrence, titleChanges,
		leaderboard, oneHitChannels, followed, gone,
		commentSearch, commentsSeen, transcriptSearch, freshness,
		coverage, saturation, queryYield, spendByDay,
	}
}

// viewsOf are the views that can be had over these tables.
func viewsOf(tables []*schema.Table) []View {
	return slices.DeleteFunc(Views(), func(v View) bool {
		return slices.ContainsFunc(v.reads, func(t *schema.Table) bool { return !slices.Contains(tables, t) })
	})
}
