package command

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"outlierd/sinks/duckdb/database"
	"outlierd/sync/job"
)

// adviseOnTables warns of views, and of SQL of the job file, that read what the file leaves out. It looks for the names of
// tables and columns, so a warning may be of another table's column.
func adviseOnTables(config *job.Config) {
	var all []sqlOfFile
	for _, v := range database.Views() {
		all = append(all, sqlOfFile{name: strings.TrimPrefix(v.Name, "main."), sql: v.SQL})
	}
	all = append(all, listSQL(config)...)
	for _, t := range config.Tables {
		var of, readers []string
		for _, r := range all {
			if !mentionsName(r.sql, t.Name) {
				continue
			}
			read := slices.DeleteFunc(slices.Clone(t.Without), func(c string) bool { return !mentionsName(r.sql, c) })
			if t.Off || len(read) > 0 {
				of, readers = append(of, read...), append(readers, r.name)
			}
		}
		what := "has no rows"
		if slices.Sort(of); !t.Off {
			what = strings.Join(slices.Compact(of), ", ") + " left out, so NULL"
		}
		if len(readers) > 0 {
			text := fmt.Sprintf("tables.%s: %s for %s", t.Name, what, strings.Join(slices.Compact(readers), ", "))
			config.Warnings = append(config.Warnings, config.Mistake(t.At, text, ""))
		}
	}
}

// mentionsName reports whether SQL has a name as a word.
func mentionsName(sql, name string) bool {
	return regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(name) + `\b`).MatchString(sql)
}
