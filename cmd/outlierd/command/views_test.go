package command

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
	"outlierd/schema"
	"outlierd/sinks/duckdb/database"
)

// viewsJobs are the jobs whose data the examples of docs/views.md show.
const viewsJobs = `
version: 1
service: {url: "sim://", limit: 6000/min}
sinks: [{duckdb: outliers.duckdb}]
budget: {per_month: 4000}
jobs:
  coffee:
    for_each: {topic: [home espresso, moka pot, latte art]}
    search: {query: ["${topic}"], sort: z_score desc, pages: 2}
    enrich:
      channel_videos: {top: 15, refresh_after: 2d}
      channel_shorts: {top: 5, refresh_after: 3d}
      details: {top: 60, refresh_after: 1d}
      comments: {top: 12, refresh_after: 1d}
      transcript: {top: 10}
  rivals:
    channels: {id: {sql: "select channel_id from outliers order by z_score desc, video_id limit 4"}}
`

// TestViewsPageIsUpToDate: docs/views.md has a section for each view, with its columns and an example with its
// output. -update writes both.
var update = flag.Bool("update", false, "rewrite the golden files")

func TestViewsPageIsUpToDate(t *testing.T) {
	t.Parallel()
	testenv.RacesLittle(t)
	bubble(t, viewsJobs, func(p *person) {
		time.Sleep(time.Until(time.Date(2026, 11, 2, 6, 0, 0, 0, time.UTC)))
		for range 4 {
			p.must("run", "coffee", "rivals")
			time.Sleep(60 * time.Hour)
		}
		starred := strings.Fields(p.must("sql", "-o", "csv", "select video_id from outliers order by z_score desc, video_id limit 3"))
		p.must(append([]string{"mark", "--star", "--tag", "hook", "--note", "opens with the result"}, starred[1:]...)...)
		p.must("mark", "--unstar", starred[1])
		const page = "../../../docs/views.md"
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		got := p.viewsPage(string(text))
		if *update {
			err = os.WriteFile(page, []byte(got), 0o644)
		} else if got != string(text) {
			err = fmt.Errorf("%s is out of date; -update writes it:\n%s", page, got)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

var (
	viewSection = regexp.MustCompile(`(?ms)^## (\S+)\n.*?\n\| Column \| \|\n\|---\|---\|\n((?:\|[^\n]*\n)*(?:\nAlso [^\n]*\n)?)`)
	sqlExample  = regexp.MustCompile("(?ms)^```sql\n(.*?)^```\n\n```\n(.*?)^```\n")
)

// isTableColumn reports whether a table has a column with this name and meaning, so that docs/tables.md explains it.
func isTableColumn(name, comment string) bool {
	return slices.ContainsFunc(schema.AllTables(), func(t *schema.Table) bool {
		return slices.ContainsFunc(t.All(), func(c schema.Column) bool { return c.Name == name && c.Comment == comment })
	})
}

// viewsPage returns the page with the current output of its examples and the current columns of the views.
func (p *person) viewsPage(page string) string {
	page = sqlExample.ReplaceAllStringFunc(page, func(example string) string {
		query := sqlExample.FindStringSubmatch(example)[1]
		out := p.must("sql", query)
		if strings.Contains(out, "(0 rows)") || strings.Contains(out, "--wide") {
			p.Errorf("the example shows no rows, or not all columns:\n%s%s", query, out)
		}
		return "```sql\n" + query + "```\n\n```\n" + out + "```\n"
	})
	views, shown := database.Views(), 0
	page = viewSection.ReplaceAllStringFunc(page, func(section string) string {
		match := viewSection.FindStringSubmatch(section)
		i := slices.IndexFunc(views, func(v database.View) bool {
			return strings.TrimPrefix(v.Name, "main.") == match[1]
		})
		if i < 0 {
			p.Errorf("the page has a section for view %s, which does not exist", match[1])
			return section
		}
		shown++
		var columns strings.Builder
		var ofTables []string
		for _, c := range views[i].Columns {
			if isTableColumn(c.Name, c.Comment) {
				ofTables = append(ofTables, "`"+c.Name+"`")
				continue
			}
			fmt.Fprintf(&columns, "| %s | %s |\n", c.Name, c.Comment)
		}
		if len(ofTables) > 0 {
			fmt.Fprintf(&columns, "\nAlso %s.\n", strings.Join(ofTables, ", "))
		}
		return strings.TrimSuffix(section, match[2]) + columns.String()
	})
	if shown != len(views) {
		p.Errorf("%d of %d views have a section, want all", shown, len(views))
	}
	return page
}
