package command

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport is the architecture: which of our packages each package may import,
// and which of the heavy libraries are fenced in. CONTRIBUTING.md shows the same
// as a picture in words.
var mayImport = map[string][]string{
	"excerpt":                   {},
	"figures":                   {},
	"lazyregexp":                {},
	"testenv":                   {},
	"outlier":                   {"excerpt"},
	"outlier/pace":              {"outlier"},
	"outlier/simulator":         {"excerpt", "lazyregexp", "outlier", "outlier/simulator/library"},
	"outlier/simulator/library": {},
	"schema":                    {"excerpt", "outlier"},
	"sinks":                     {"schema"},
	"sinks/duckdb/database":     {"lazyregexp", "schema"},
	"sinks/duckdb/query":        {"lazyregexp", "outlier", "schema", "sinks/duckdb/database"},
	"sinks/warehouse":           {"schema", "sinks", "sinks/duckdb/database"},
	"sinks/duckdb":              {"sinks", "sinks/duckdb/database", "sinks/warehouse"},
	"sinks/parquet":             {"lazyregexp", "schema", "sinks", "sinks/duckdb/database", "sinks/warehouse"},
	"sinks/bucket":              {"excerpt", "lazyregexp", "sinks", "sinks/parquet"},
	"sinks/bucket/buckettest":   {},
	"sinks/iceberg":             {"excerpt", "schema", "sinks", "sinks/bucket", "sinks/duckdb/database", "sinks/parquet", "sinks/warehouse"},
	"sinks/compare":             {"schema", "sinks", "sinks/duckdb/database"},
	"sinks/sinktest":            {"schema", "sinks", "sinks/duckdb/database", "sinks/warehouse"},
	"sync/yamltree":             {"excerpt", "lazyregexp"},
	"sync/job":                  {"excerpt", "lazyregexp", "outlier", "outlier/pace", "sync/yamltree"},
	"sync/plan":                 {"outlier", "sync/job"},
	"sync/store":                {},
	"sync/ops":                  {"sync/store"},
	"sync/journal":              {"outlier", "sync/ops", "sync/store"},
	"sync/forgotten":            {"sync/store"},
	"sync/ledger":               {"outlier", "sync/journal", "sync/ops", "sync/store"},
	"sync/marks":                {"sync/ops", "sync/store"},
	"sync/queue":                {"outlier", "sync/forgotten", "sync/journal", "sync/ledger", "sync/store"},
	"sync/runs":                 {"outlier", "sync/ledger", "sync/ops", "sync/plan", "sync/store"},
	"sync/state":                {"outlier", "sync/forgotten", "sync/journal", "sync/ledger", "sync/marks", "sync/ops", "sync/queue", "sync/runs", "sync/store"},
	"sync/state/statetest": {"outlier", "sync/journal", "sync/ledger", "sync/ops", "sync/plan", "sync/queue", "sync/runs",
		"sync/state", "sync/store"},
	"sync/facts": {"outlier", "sync/job", "sync/journal", "sync/ledger", "sync/plan", "sync/queue", "sync/runs",
		"sync/state"},
	"sync/forecast": {"outlier", "outlier/pace", "sync/facts", "sync/job", "sync/journal", "sync/ledger", "sync/plan", "sync/queue",
		"sync/runs", "sync/state"},
	"sync/load": {"excerpt", "outlier", "schema", "sinks", "sync/journal", "sync/ops", "sync/runs", "sync/state", "sync/store"},
	"sync/engine": {"outlier", "outlier/pace", "schema", "sinks", "sync/facts", "sync/job", "sync/journal", "sync/ledger", "sync/load",
		"sync/plan", "sync/queue", "sync/runs", "sync/state", "sync/store"},
	"sync/backup":              {"sync/state"},
	"sync/check":               {"schema", "sinks", "sinks/compare", "sync/load", "sync/state"},
	"sync/serve":               {"outlier", "outlier/pace", "sync/engine", "sync/forgotten", "sync/job", "sync/ledger", "sync/load", "sync/marks", "sync/runs", "sync/store"},
	"sync/notify":              {"excerpt", "figures", "sync/job", "sync/journal", "sync/ledger", "sync/runs", "sync/state", "sync/store"},
	"sync/metrics":             {"outlier", "outlier/pace", "sinks", "sync/job", "sync/ledger", "sync/runs", "sync/state", "sync/store"},
	"sync/trace":               {"outlier", "sync/ledger", "sync/runs", "sync/state"},
	"cmd/outlierd/page":        {"figures"},
	"cmd/outlierd/term":        {},
	"cmd/outlierd/thumbnails":  {},
	"cmd/outlierd":             {"cmd/outlierd/command"},
	"cmd/outlierd/e2e":         {},
	"cmd/outlierd/storage":     {},
	"cmd/outlierd/programtest": {"outlier/simulator", "sinks/bucket/buckettest", "sinks/duckdb/database", "testenv"},
	"cmd/outlierd/command": {"cmd/outlierd/page", "cmd/outlierd/term", "cmd/outlierd/thumbnails", "figures", "lazyregexp", "outlier", "outlier/pace", "outlier/simulator", "schema", "sinks", "sinks/bucket", "sinks/compare", "sinks/duckdb", "sinks/duckdb/database", "sinks/duckdb/query", "sinks/iceberg", "sinks/parquet", "sinks/warehouse",
		"sync/backup", "sync/check", "sync/engine", "sync/facts", "sync/forecast", "sync/forgotten", "sync/job", "sync/ledger", "sync/load", "sync/marks", "sync/metrics", "sync/notify", "sync/plan", "sync/queue", "sync/runs", "sync/serve", "sync/state", "sync/store", "sync/trace", "sync/yamltree"},
}

// fenced libraries may be imported by these packages only, so that each could be
// exchanged in one place.
var fenced = map[string][]string{
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
	"go.opentelemetry.io/":         {"sync/trace"},
	"github.com/wneessen/":         {"sync/notify"},
	"github.com/prometheus/":       {"sync/metrics"},
	"golang.org/x/term":            {"cmd/outlierd/term"},
	"github.com/jedib0t/":          {"cmd/outlierd/term"},
}

func TestImportsPointOneWay(t *testing.T) {
	t.Parallel()
	for pkg, imports := range imported(t) {
		allowed, known := mayImport[pkg]
		if !known {
			t.Errorf("package %s is not in the table of layers; decide where it belongs", pkg)
			continue
		}
		for _, path := range imports {
			if ours, ok := strings.CutPrefix(path, "outlierd/"); ok && !slices.Contains(allowed, ours) {
				t.Errorf("%s must not import %s", pkg, ours)
			}
			for library, users := range fenced {
				if strings.HasPrefix(path, library) && !slices.Contains(users, pkg) {
					t.Errorf("%s must not import %s; only %v may", pkg, path, users)
				}
			}
		}
	}
}

// imported asks the go command what each of our packages imports, tests left out.
func imported(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-tags", "azure,iceberg,otlp", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "outlierd/...")
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
