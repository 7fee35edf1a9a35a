package job

import (
	"slices"
	"strings"
	"time"

	"outlierd/internal/lazyregexp"
	"outlierd/sync/yamltree"
)

// Report is one entry of `reports`: the result of SQL that is sent to targets on a schedule.
type Report struct {
	Name   string
	About  string   `key:"about"` // description for people; "" if there is none
	SQL    string   // for a view of the tables, all of its rows
	View   string   // name or address of one that people saved on the page, in place of SQL
	To     []string `key:"to"`     // names of targets
	Attach string   `key:"attach"` // format of the file that mails have with all rows; "" for none

	due cronTimes

	At yamltree.Place // of the SQL or the view
}

// Last returns the last due time after the first of two times and not after the second, or the zero time.
func (r *Report) Last(after, until time.Time, loc *time.Location) time.Time {
	return lastDue(func(t time.Time) time.Time { return nextTime(r.due, t, loc) }, after, until)
}

func readReports(c *Config, root, n *yamltree.Node) {
	for _, e := range n.Mappings() {
		readReport(c, root, e.Key, e.Value)
	}
}

// readReport reads one report. The schema has checked its keys and their types.
func readReport(c *Config, root *yamltree.Node, name, n *yamltree.Node) {
	r := Report{Name: name.Text, due: valueOf[cronTimes](n.Get("schedule"))}
	readKeys(&r, schema().Definitions["report"], n)
	key, what := n.Choice(schema().Definitions["report"].Choices())
	if key == nil {
		return
	}
	switch text := what.TextOr(""); {
	case key.Text == "sql":
		r.SQL = text
	case isTable().MatchString(text):
		r.SQL = "SELECT * FROM " + quotedName(text)
	default:
		r.View = text
	}
	needsTables(c, what)
	r.At = what.At()
	for _, to := range n.Get("to").Members() {
		if root.Get("notify").Get(to.Text).Get(TargetHealthchecks) != nil {
			to.Refuse("is a check of Healthchecks, which gets no reports")
		}
	}
	c.Reports = append(c.Reports, r)
}

// isTable matches names of views and tables of the published file. Other names are those of views on the page.
var isTable = lazyregexp.New(`^[a-z0-9_.]*$`)

// quotedName returns a name such as ops.spend_by_day, quoted for SQL.
func quotedName(name string) string {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		parts[i] = `"` + strings.ReplaceAll(part, `"`, `""`) + `"`
	}
	return strings.Join(parts, ".")
}

// Question is one entry of `questions`: named SQL on the page.
type Question struct {
	Name, SQL string

	At yamltree.Place // of SQL
}

func readQuestions(c *Config, n *yamltree.Node) {
	for _, e := range n.Pairs() {
		if e.Value.Has(yamltree.Text) {
			needsTables(c, e.Value)
			c.Questions = append(c.Questions, Question{e.Key.Text, e.Value.Text, e.Value.At()})
		}
	}
}

// needsTables refuses SQL if there is no DuckDB file to query.
func needsTables(c *Config, sql *yamltree.Node) {
	if !slices.ContainsFunc(c.Sinks, func(s Sink) bool { return s.Kind == SinkDuckDB }) {
		sql.RefuseWithHint("add - duckdb: outliers.duckdb to sinks", "needs a duckdb sink, whose tables SQL reads")
	}
}
