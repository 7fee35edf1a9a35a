package schema

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files and docs/tables.md anew")

// golden compares got with a file, which -update writes.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-file +got; -update writes it):\n%s", file, diff)
	}
}

// Users' queries depend on these tables: a change of this file is a change for them.
func TestTablesMatchTheGoldenFile(t *testing.T) {
	var b strings.Builder
	for _, table := range slices.Concat(Tables(), OpsTables()) {
		fmt.Fprintf(&b, "%s %s (%s)\n", table.Name, table.Kind, strings.Join(table.Key, ", "))
		for _, f := range table.Stored().Fields() {
			fmt.Fprintf(&b, "\t%s %s\n", f.Name, f.Type)
		}
	}
	golden(t, filepath.Join("testdata", "tables.golden"), b.String())
}

func TestReferenceIsGenerated(t *testing.T) {
	golden(t, filepath.Join("..", "docs", "tables.md"), Markdown())
}

func TestDeclarationsAreValid(t *testing.T) {
	names := map[string]bool{}
	for _, table := range slices.Concat(Tables(), OpsTables()) {
		if names[table.FileName()] {
			t.Errorf("two tables would share the folder %s", table.FileName())
		}
		names[table.FileName()] = true
		columns := map[string]bool{}
		for _, f := range table.Stored().Fields() {
			if columns[strings.ToLower(f.Name)] {
				t.Errorf("%s has two columns %s", table.Name, f.Name)
			}
			columns[strings.ToLower(f.Name)] = true
		}
		for _, key := range table.Key {
			if !columns[key] {
				t.Errorf("%s has no key column %s", table.Name, key)
			}
		}
		for _, f := range table.Stored().Fields() {
			if comment, _ := f.Metadata.GetValue(CommentKey); comment == "" {
				t.Errorf("%s.%s has no comment", table.Name, f.Name)
			}
		}
		if table.Comment == "" || len(table.Key) == 0 {
			t.Errorf("%s lacks a comment or a key", table.Name)
		}
	}
}

func TestEveryDataColumnHasOneOrigin(t *testing.T) {
	given := (&Source{}).values()
	for _, table := range Tables() {
		for _, c := range slices.Concat(table.Columns, table.lineage) {
			_, isGiven := given[c.Name]
			if c.Path != "" && c.computed != nil || c.Path == "" && c.computed == nil && !isGiven {
				t.Errorf("%s.%s does not come from one place", table.Name, c.Name)
			}
		}
	}
}

// A value in the wrong column would also be rebuilt from there, so names and paths are compared
// separately.
func TestColumnsAreNamedAfterFields(t *testing.T) {
	otherwise := map[string]string{ // as the plan of the tables has it
		"authorThumbnail": "author_thumbnails", "language.code": "language", "input.query": "queries",
	}
	capital := regexp.MustCompile(`[A-Z]`)
	for _, table := range Tables() {
		for _, c := range table.Columns {
			leaf := c.Path[strings.LastIndexAny(c.Path, "./")+1:]
			want := strings.ToLower(capital.ReplaceAllString(leaf, "_$0"))
			want = cmp.Or(otherwise[c.Path], want)
			if c.Name != want && !strings.HasSuffix(c.Name, "_"+want) && c.Path != "" {
				t.Errorf("%s.%s holds %s", table.Name, c.Name, c.Path)
			}
			if strings.Contains(c.Path, "channelMonetization") && !strings.HasPrefix(c.Name, "channel_") {
				t.Errorf("%s.%s holds a number of the channel", table.Name, c.Name)
			}
		}
	}
}

func TestCurrentTablesShareHistoryColumns(t *testing.T) {
	for _, table := range Tables() {
		if table.History == nil {
			continue
		}
		for _, f := range table.Schema().Fields() {
			of, ok := table.History.Schema().FieldsByName(f.Name)
			if !ok || !arrow.TypeEqual(of[0].Type, f.Type) {
				t.Errorf("%s.%s is not in %s", table.Name, f.Name, table.History.Name)
			}
		}
		if !slices.Equal(table.Key, table.History.Key) {
			t.Errorf("%s and %s have different keys", table.Name, table.History.Name)
		}
	}
}

func TestOnlyCurrentTablesCountObservations(t *testing.T) {
	for _, table := range Tables() {
		extra := len(table.Stored().Fields()) - len(table.Schema().Fields())
		want := 0
		if table.Identity() != nil {
			want = 1
		}
		if table.Kind == Current {
			want += 3
		}
		if table.Grows != "" {
			want += 2
			if f, ok := table.Stored().FieldsByName(table.Grows); !ok || f[0].Type != bigint || table.Kind != Current {
				t.Errorf("%s grows by %s, which is not a BIGINT of a current table", table.Name, table.Grows)
			}
		}
		if extra != want {
			t.Errorf("%s is stored with %d more columns, want %d", table.Name, extra, want)
		}
	}
}

func TestOperationsTablesAreNumbered(t *testing.T) {
	for _, table := range OpsTables() {
		first := table.Schema().Field(0)
		if first.Name != "id" || first.Type != bigint {
			t.Errorf("%s begins with %s %s, want id BIGINT", table.Name, first.Name, first.Type)
		}
		if len(table.Schema().Fields()) != len(table.Columns) {
			t.Errorf("%s has lineage", table.Name)
		}
	}
	if got := OpsRuns.FileName(); got != "ops_runs" {
		t.Errorf("folder of ops.runs is %s", got)
	}
}
