package scale

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"outlierd/schema"
)

var (
	again  = flag.String("play", "", "repeat one of the plays in testdata/plays, and record it")
	update = flag.Bool("update", false, "write measured.json and the tables of docs/design/scale.md by the recorded plays")
)

// plays are the recorded plays, each with a seed of its own. The model is measured by the first two and compared
// with the others.
var plays = map[string]struct {
	use  string
	seed uint64
	days int
	lake bool
}{
	"few":      {"ordinary", 1, 14, false},
	"many":     {"busy", 1, 1, false},
	"ordinary": {"ordinary", 2, 30, false},
	"busy":     {"busy", 2, 1, false},
	"lake":     {"ordinary", 2, 5, true},
}

// TestPlayAgain repeats a recorded play.
func TestPlayAgain(t *testing.T) {
	if *again == "" || *again == "commits" {
		t.Skip("needs -play with the name of a play that is not commits, which is for TestLakeCommits")
	}
	of, known := plays[*again]
	if !known {
		t.Fatalf("there is no play %q", *again)
	}
	p := play(t, of.use+".yaml", of.seed, begin, of.days, of.lake)
	write(t, *again, p)
}

// write records a play.
func write(t *testing.T, name string, p any) {
	t.Helper()
	text, err := json.MarshalIndent(p, "", "\t")
	if err == nil {
		err = os.WriteFile(record(name), append(text, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func record(name string) string { return filepath.Join("testdata", "plays", name+".json") }

// recorded reads a recorded play, or other measurements.
func recorded[T any](t *testing.T, name string) *T {
	t.Helper()
	text, err := os.ReadFile(record(name))
	if err != nil {
		t.Fatal(err)
	}
	var p T
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatalf("%s: %v", record(name), err)
	}
	return &p
}

// uses are those of the page, by their job files in testdata, with the number of ids that their SQL finds.
var uses = map[string]map[string]int{
	"ordinary": {"rivals": 20, "weekly": 200},
	"busy":     {"videos": 500, "channels": 250},
}

// counted returns what the model computes for a use.
func counted(t *testing.T, name string, from time.Time, days int) *Month {
	t.Helper()
	m := given(t)
	month, err := Count(Use{Config: parse(t, name+".yaml"), Finds: uses[name], From: from, Days: days, Service: m.Services[name]}, m.Cost)
	if err != nil {
		t.Fatal(err)
	}
	return month
}

func given(t *testing.T) *Measured {
	t.Helper()
	m, err := Given()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A comparison is a number of the model beside that of a play.
type comparison struct {
	group, what      string
	modelled, played float64
}

// off is the error of the model, as a share of what the play did.
func (c comparison) off() float64 { return (c.modelled - c.played) / max(1, c.played) }

// compare lists what a month and a play have in common. It leaves out tables and operations with few rows or
// calls, where a single one makes a large difference.
func compare(month *Month, p *Played) (all []comparison) {
	add := func(group, what string, modelled, played float64) {
		few := 50.0
		if group == "commits" {
			few = 20
		}
		if max(modelled, played) >= few {
			all = append(all, comparison{group, what, modelled, played})
		}
	}
	for _, op := range slices.Sorted(maps.Keys(p.Calls)) {
		add("calls", string(op), month.Calls[op], p.Calls[op])
	}
	add("credits", "credits", month.Credits, p.Credits)
	for _, table := range append(schema.Tables(), schema.OpsTables()...) {
		add("rows", table.Name, month.Rows[table.Name], p.Rows[table.Name])
	}
	add("publications", "publications", month.Publications, p.Publications)
	for _, table := range slices.Sorted(maps.Keys(p.Commits)) {
		add("commits", table, month.Lake.Commits[table], p.Commits[table])
	}
	add("bytes", "state.db", month.Bytes.State, p.Bytes.State)
	add("bytes", "DuckDB", month.Bytes.DuckDB, p.Bytes.DuckDB)
	if p.Commits != nil {
		return all // it had no bucket
	}
	for _, table := range append(schema.Tables(), schema.OpsTables()...) {
		add("files written", table.Name, month.Written[table.Name], p.Bucket.Puts[table.FileName()])
	}
	add("bytes", "Parquet", month.Bytes.Parquet, p.Bytes.Parquet)
	add("bucket", "PUT", month.Bucket.Put, p.Bucket.Put)
	add("bucket", "DELETE", month.Bucket.Delete, p.Bucket.Delete)
	add("bucket", "bytes sent", month.Bucket.Sent, p.Bucket.Sent)
	return all
}

// groups are the groups of numbers, in the order of the page. stated is the largest error of each, as a share.
var (
	groups = []string{"calls", "credits", "rows", "publications", "bytes", "files written", "bucket", "commits"}
	stated = map[string]float64{"calls": 0.2, "credits": 0.01, "rows": 0.3, "publications": 0.1, "bytes": 0.2,
		"files written": 0.25, "bucket": 0.35, "commits": 0.25}
)

// within fails if the error of the model is larger than stated.
func within(t *testing.T, use string, from time.Time, days int, p *Played) {
	t.Helper()
	for _, c := range compare(counted(t, use, from, days), p) {
		t.Logf("%-9s %-13s %-28s model %12.0f  play %12.0f  %+6.1f %%",
			use, c.group, c.what, c.modelled, c.played, 100*c.off())
		if most := stated[c.group]; math.Abs(c.off()) > most {
			t.Errorf("%s in %d days: %s, %s: the model says %.0f, and the engine did %.0f; the stated error is %.0f %%",
				use, days, c.group, c.what, c.modelled, c.played, 100*most)
		}
	}
}

// TestModelIsWithinItsError compares the model with a recorded month and a recorded day.
func TestModelIsWithinItsError(t *testing.T) {
	for _, use := range slices.Sorted(maps.Keys(uses)) {
		within(t, use, begin, plays[use].days, recorded[Played](t, use))
	}
	within(t, "ordinary", begin, plays["lake"].days, recorded[Played](t, "lake"))
}

// TestEngineDoesWhatTheModelSays plays a weekend, in which each job runs, so that a change of the engine is noticed
// without a new record.
func TestEngineDoesWhatTheModelSays(t *testing.T) {
	if testing.Short() {
		t.Skip("plays days")
	}
	saturday, days := begin.AddDate(0, 0, 2), 2
	p := play(t, "ordinary.yaml", 2, saturday, days, false)
	within(t, "ordinary", saturday, days, &p)
}

// TestMeasuredMatchesThePlays compares measured.json with the recorded plays. -update writes it.
func TestMeasuredMatchesThePlays(t *testing.T) {
	text, err := json.MarshalIndent(measure(recorded[Played](t, "few"), recorded[Played](t, "many"), recorded[Asked](t, "commits")), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *update {
		err = os.WriteFile("measured.json", text, 0o644)
	} else if string(text) != string(measured) {
		err = fmt.Errorf("measured.json differs from the recorded plays; -update writes it, and then the page")
	}
	if err != nil {
		t.Error(err)
	}
}
