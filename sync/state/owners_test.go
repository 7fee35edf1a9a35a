package state_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// owned are the tables and views of each package.
var owned = map[string][]string{
	"store":   {"meta", "sqlite_schema", "pragma_quick_check", "pragma_page_count"},
	"ops":     {"ops_changes", "sqlite_sequence"},
	"journal": {"responses", "drift", "paging", "limits", "sqlite_sequence"},
	"ledger":  {"attempts", "caps", "blocks", "jobs", "hold_rests", "releasable_holds", "cap_sums"},
	"queue":   {"tasks", "wants", "freshness", "ops"},
	"runs":    {"runs", "run_keys", "steps", "seen", "imported", "run_hits", "scans", "watermarks", "dues", "renames", "pauses"},
	"notify":  {"notify_outbox", "notify_episodes", "alert_rows"},
	"marks":   {"marks", "views"},
	"state":   {},

	"forgotten": {"forgotten"},
}

// TestPackagesReadOnlyTheirTables: a package reads the tables of another only through that package.
func TestPackagesReadOnlyTheirTables(t *testing.T) {
	t.Parallel()
	defined := regexp.MustCompile(`\bWITH(?: RECURSIVE)?\s+([a-z_]+)\b`) // within a statement
	named := regexp.MustCompile(`\b(?:FROM|JOIN|INTO|UPDATE(?: OR \w+)?)\s+([a-z_]+)\b`)
	for name, tables := range owned {
		paths, err := filepath.Glob("../" + name + "/*.go")
		if err != nil || len(paths) == 0 {
			t.Fatalf("the files of package %s: %v (%v)", name, paths, err)
		}
		files := token.NewFileSet()
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				text, ok := n.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					return true
				}
				own := slices.Clone(tables)
				for _, table := range defined.FindAllStringSubmatch(text.Value, -1) {
					own = append(own, table[1])
				}
				for _, table := range named.FindAllStringSubmatch(text.Value, -1) {
					if !slices.Contains(own, table[1]) && table[1] != "json_each" {
						t.Errorf("%s: package %s reads %s", files.Position(n.Pos()), name, table[1])
					}
				}
				return true
			})
		}
	}
}
