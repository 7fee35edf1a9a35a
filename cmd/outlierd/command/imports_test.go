package command

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// fenced libraries may be imported by these packages only, so that each could be exchanged in one
// place. What serves one place of the program is fenced, too: nothing below cmd knows which sinks
// exist, and only cmd plays the service.
var fenced = map[string][]string{
	"outlierd/outlier/simulator":   {"outlier/simulator/library", "outlier/simulator", "cmd/outlierd/programtest", "cmd/outlierd/command"},
	"outlierd/sinks/bucket":        {"sinks/iceberg", "cmd/outlierd/programtest", "cmd/outlierd/command"},
	"outlierd/sinks/duckdb/query":  {"cmd/outlierd/page", "cmd/outlierd/command"},
	"outlierd/sinks/iceberg":       {"cmd/outlierd/command"},
	"outlierd/sinks/parquet":       {"sinks/bucket", "sinks/iceberg", "cmd/outlierd/command"},
	"outlierd/sinks/warehouse":     {"sinks/duckdb", "sinks/iceberg", "sinks/parquet", "sinks/sinktest", "cmd/outlierd/command"},
	"outlierd/sync/forecast":       {"cmd/outlierd/report", "cmd/outlierd/page", "cmd/outlierd/mcp", "cmd/outlierd/command"},
	"outlierd/sync/yamltree":       {"sync/job", "cmd/outlierd/daemon", "cmd/outlierd/command"},
	"github.com/duckdb/":           {"cmd/outlierd/programtest", "sinks/duckdb/database", "sinks/duckdb/query", "sinks/sinktest"},
	"github.com/apache/arrow-go/":  {"cmd/outlierd/programtest", "schema", "sinks/duckdb/database", "sinks/iceberg", "sinks/sinktest", "sinks/warehouse", "sync/engine", "sync/load"},
	"github.com/minio/":            {"sinks/bucket"},
	"github.com/Azure/":            {"sinks/bucket"},
	"github.com/apache/iceberg-go": {"sinks/iceberg"},
	"github.com/jackc/":            {"sinks/iceberg"},
	"modernc.org/sqlite":           {"sinks/iceberg", "sync/store", "sync/state/statetest"},
	"go.yaml.in/yaml/v4":           {"sync/yamltree"},
	"github.com/robfig/cron/":      {"sync/job"},
	"github.com/getkin/":           {}, // for tests alone
	"github.com/santhosh-tekuri/":  {}, // for tests alone
	"github.com/spf13/":            {"cmd/outlierd/command"},
	"filippo.io/age":               {"internal/sealed"},
	"github.com/wneessen/":         {"sync/notify"},
	"github.com/prometheus/":       {"sync/metrics"},
	"golang.org/x/term":            {"cmd/outlierd/term"},
	"github.com/jedib0t/":          {"cmd/outlierd/term"},
	"github.com/modelcontextproto": {"cmd/outlierd/mcp"},
}

// TestImportsPointOneWay holds the table of layers in CONTRIBUTING.md: a package imports only what
// stands above it there.
func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	layers := listedPackages(t)
	for pkg, imports := range imported(t) {
		place := slices.Index(layers, pkg)
		if place < 0 {
			t.Errorf("package %s is not in the table of layers; decide where it belongs", pkg)
			continue
		}
		for _, path := range imports {
			if ours, ok := strings.CutPrefix(path, "outlierd/"); ok && !slices.Contains(layers[:place], ours) {
				t.Errorf("%s must not import %s, which stands below it in the table of layers", pkg, ours)
			}
			for library, users := range fenced {
				if strings.HasPrefix(path, library) && !slices.Contains(users, pkg) {
					t.Errorf("%s must not import %s; only %v may", pkg, path, users)
				}
			}
		}
	}
}

// listedPackages are those of the table of layers in CONTRIBUTING.md, from the ground up.
func listedPackages(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Layers\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var all []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			if name, ok := strings.CutPrefix(strings.TrimSpace(cells[2]), "`"); ok {
				all = append(all, strings.TrimSuffix(name, "`"))
			}
		}
	}
	if !found || len(all) == 0 {
		t.Fatal("CONTRIBUTING.md has no table of layers")
	}
	return all
}

// imported asks the go command what each of our packages imports, tests left out.
func imported(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-tags", "azure,iceberg", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "outlierd/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[strings.TrimPrefix(pkg, "outlierd/")] = strings.Fields(imports)
	}
	if len(all) == 0 {
		t.Fatal("go list names no package")
	}
	return all
}
