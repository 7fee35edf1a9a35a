package scale

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"outlierd/schema"
)

const page = "../../docs/design/scale.md"

// keys are the columns of the page: numbers of keys, each with a folder and a process of its own.
var keys = []float64{1, 10, 100, 1000}

// TestPage compares the tables of docs/design/scale.md with the model. -update writes them.
func TestPage(t *testing.T) {
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	m := given(t)
	months := map[string]*Month{}
	for name := range uses {
		months[name] = counted(t, name, begin, 30)
	}
	text := string(old)
	for name, table := range map[string]string{
		"month":   monthTable(months),
		"keys":    keysTable(months),
		"billion": billionTable(months),
		"parquet": parquetTable(m),
		"asked":   askedTable(t, months),
		"error":   errorTable(t),
		"given":   givenTable(m),
	} {
		text = replace(t, text, name, table)
	}
	if *update {
		err = os.WriteFile(page, []byte(text), 0o644)
	} else if text != string(old) {
		err = fmt.Errorf("%s differs from the model; -update writes it", page)
	}
	if err != nil {
		t.Error(err)
	}
}

// replace puts a table between the two marks of its name.
func replace(t *testing.T, text, name, table string) string {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no %s and %s", page, strings.TrimSpace(begin), end)
	}
	return before + begin + table + end + after
}

// A column of numbers is right-aligned.
func tableOf(head ...string) *strings.Builder {
	b := &strings.Builder{}
	row(b, head...)
	fmt.Fprintf(b, "|---%s|\n", strings.Repeat("|---:", len(head)-1))
	return b
}

func row(b *strings.Builder, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

// monthTable shows a month of one key.
func monthTable(months map[string]*Month) string {
	b := tableOf("In 30 days", "ordinary", "busy")
	line := func(what string, of func(*Month) string) { row(b, what, of(months["ordinary"]), of(months["busy"])) }
	line("runs", func(m *Month) string { return number(m.Runs) })
	line("calls", func(m *Month) string { return number(sum(m.Calls)) })
	ops := map[string]bool{}
	for _, month := range months {
		for op := range month.Calls {
			ops[string(op)] = true
		}
	}
	for _, op := range slices.Sorted(maps.Keys(ops)) {
		line("– "+op, func(m *Month) string {
			for known, n := range m.Calls {
				if string(known) == op {
					return number(n)
				}
			}
			return "0"
		})
	}
	line("credits", func(m *Month) string { return number(m.Credits) })
	line("publications", func(m *Month) string { return number(m.Publications) })
	for _, table := range append(schema.Tables(), schema.OpsTables()...) {
		if months["busy"].Rows[table.Name] > 0 {
			line("rows of "+table.Name, func(m *Month) string { return number(m.Rows[table.Name]) })
		}
	}
	line("`state.db`", func(m *Month) string { return size10(m.Bytes.State) })
	line("DuckDB file", func(m *Month) string { return size10(m.Bytes.DuckDB) })
	line("Parquet files", func(m *Month) string { return number(m.Files) + " with " + size10(m.Bytes.Parquet) })
	line("processor time", func(m *Month) string { return few(m.CPU/3600) + " h" })
	return b.String()
}

// keysTable shows a month of many keys together.
func keysTable(months map[string]*Month) string {
	b := tableOf("In 30 days", "1 key", "10 keys", "100 keys", "1,000 keys")
	for _, use := range []string{"ordinary", "busy"} {
		month := months[use]
		line := func(what string, each float64, show func(float64) string) {
			cells := []string{use + ": " + what}
			for _, n := range keys {
				cells = append(cells, show(n*each))
			}
			row(b, cells...)
		}
		line("calls", sum(month.Calls), number)
		line("rows added", sum(month.Rows), number)
		line("journals", month.Bytes.State, size10)
		line("DuckDB files", month.Bytes.DuckDB, size10)
		line("Parquet", month.Bytes.Parquet, size10)
		line("processors busy", month.CPU/(30*24*3600), few)
	}
	return b.String()
}

// billionTable shows when each table has a billion rows.
func billionTable(months map[string]*Month) string {
	b := tableOf("Table", "rows a month and key", "1 key", "10 keys", "100 keys", "1,000 keys")
	for _, use := range []string{"ordinary", "busy"} {
		rows := months[use].Rows
		names := slices.DeleteFunc(slices.Collect(maps.Keys(rows)), func(name string) bool {
			return !strings.HasSuffix(name, "_history") && !strings.HasPrefix(name, "ops.") && name != "transcript_events"
		})
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(rows[b], rows[a]) })
		for _, name := range names[:4] {
			cells := []string{use + ": " + name, number(rows[name])}
			for _, n := range keys {
				cells = append(cells, span(1e9/(n*rows[name])))
			}
			row(b, cells...)
		}
	}
	return b.String()
}

// parquetTable shows what current tables cost as Parquet files.
func parquetTable(m *Measured) string {
	b := tableOf("Rows of current tables", "a publication takes", "readers see new rows every", "uploaded a day, at most")
	const rewriting = 10e-6 // seconds of a row: BenchmarkPublishCurrent of sinks/parquet
	for _, rows := range []float64{1e4, 1e5, 1e6, 1e7} {
		takes := rows * rewriting
		every := max(60, 20*takes)
		row(b, number(rows), fmt.Sprintf("%.1f s", takes), fmt.Sprintf("%.0f min", every/60),
			size10(24*3600/every*rows*m.Cost.ParquetPerRow["comments"]))
	}
	return b.String()
}

// Prices of a bucket and of a catalog's database.
type Prices struct {
	Put     float64 `json:"put"`     // of 1,000 requests that write or list
	Get     float64 `json:"get"`     // of 1,000 that read
	Month   float64 `json:"month"`   // of a GB for a month
	Catalog float64 `json:"catalog"` // a month
}

// askedTable shows the requests to a bucket and a catalog, and what they cost.
func askedTable(t *testing.T, months map[string]*Month) string {
	var prices Prices
	text, err := os.ReadFile(filepath.Join("testdata", "prices.json"))
	if err == nil {
		err = json.Unmarshal(text, &prices)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := tableOf("In 30 days", "1 key", "10 keys", "100 keys", "1,000 keys")
	for _, use := range []string{"ordinary", "busy"} {
		month := months[use]
		line := func(what string, show func(keys float64) string) {
			cells := []string{use + ", " + what}
			for _, n := range keys {
				cells = append(cells, show(n))
			}
			row(b, cells...)
		}
		line("bucket: PUT", func(n float64) string { return number(n * month.Bucket.Put) })
		line("bucket: uploaded", func(n float64) string { return size10(n * month.Bucket.Sent) })
		line("bucket: price of the month", func(n float64) string {
			return price(n * (month.Bucket.Put*prices.Put/1000 + month.Bytes.Parquet/1e9*prices.Month))
		})
		commits := sum(month.Lake.Commits)
		line("lake: commits", func(n float64) string { return number(n * commits) })
		line("lake: commits of the busiest table, each minute", func(n float64) string {
			return few(n * slices.Max(slices.Collect(maps.Values(month.Lake.Commits))) / (30 * 24 * 60))
		})
		line("lake: PUT", func(n float64) string { return number(n * month.Lake.Put) })
		line("lake: GET and HEAD", func(n float64) string { return number(n * month.Lake.Get) })
		line("lake: price of the month", func(n float64) string {
			return price(n*(month.Lake.Put*prices.Put/1000+month.Lake.Get*prices.Get/1000+month.Bytes.Parquet/1e9*prices.Month) + prices.Catalog)
		})
	}
	return b.String()
}

// few formats a number that may be below one.
func few(n float64) string {
	if n >= 10 {
		return number(n)
	}
	return strconv.FormatFloat(n, 'f', max(1, 1-int(math.Floor(math.Log10(n)))), 64)
}

func price(p float64) string {
	if p < 10 {
		return fmt.Sprintf("%.2f", p)
	}
	return number(p)
}

// errorTable shows by how much the model differs from the recorded plays.
func errorTable(t *testing.T) string {
	b := tableOf("What", "compared", "largest difference", "allowed")
	for _, group := range groups {
		n, most := 0, comparison{}
		for _, name := range []string{"ordinary", "busy", "lake"} {
			p := recorded[Played](t, name)
			for _, c := range compare(counted(t, plays[name].use, begin, p.Days), p) {
				if c.group != group {
					continue
				}
				if n++; math.Abs(c.off()) >= math.Abs(most.off()) {
					most = c
				}
			}
		}
		row(b, group, fmt.Sprint(n), fmt.Sprintf("%+.0f %% (%s)", 100*most.off(), most.what), fmt.Sprintf("%.0f %%", 100*stated[group]))
	}
	return b.String()
}

// givenTable shows what the model takes as given.
func givenTable(m *Measured) string {
	b := tableOf("Measured", "ordinary", "busy")
	both := func(what string, of func(Service) string) {
		row(b, what, of(m.Services["ordinary"]), of(m.Services["busy"]))
	}
	for _, op := range slices.Sorted(maps.Keys(m.Services["busy"].Answers)) {
		both("an answer of "+string(op)+": bytes", func(s Service) string { return number(s.Answers[op].Bytes) })
		for _, table := range schema.Tables() {
			if m.Services["busy"].Answers[op].Rows[table.Name] > 0 && (table.Kind == schema.History || table.Kind == schema.Once) {
				both("– rows of "+table.Name, func(s Service) string { return fmt.Sprintf("%.3g", s.Answers[op].Rows[table.Name]) })
			}
		}
	}
	both("videos that are new among the best 30 hits of a search, a day", func(s Service) string { return fmt.Sprintf("%.1f %%", 100*s.New) })
	both("share of a run's hits that are distinct", func(s Service) string { return fmt.Sprintf("%.0f %%", 100*s.Distinct) })
	for _, table := range append(schema.Tables(), schema.OpsTables()...) {
		if n := m.Cost.ParquetPerRow[table.Name]; n > 0 && months(table) {
			row(b, "Parquet: bytes of a row of "+table.Name, fmt.Sprintf("%.0f", n), "the same")
		}
	}
	row(b, "DuckDB: bytes for each byte of Parquet", fmt.Sprintf("%.1f", m.Cost.DuckDBPerParquet), "the same")
	row(b, "`state.db`: bytes of a call beside the answer", number(m.Cost.StatePerCall), "the same")
	row(b, "processor time of a call, with all that follows", fmt.Sprintf("%.0f ms", 1000*m.Cost.CPUPerCall), "the same")
	return b.String()
}

// months reports whether a table grows from month to month.
func months(t *schema.Table) bool {
	return t.Kind == schema.History || t.Kind == schema.Once || t.Name == "ops.requests"
}

// number formats a number with two or three digits.
func number(n float64) string {
	switch {
	case n >= 999.5e6:
		return fmt.Sprintf("%.3g billion", n/1e9)
	case n >= 999.5e3:
		return fmt.Sprintf("%.3g million", n/1e6)
	case n >= 9995:
		return fmt.Sprintf("%.0f,000", n/1000)
	case n >= 1000:
		return fmt.Sprintf("%d,%02.0f0", int(n)/1000, float64(int(n)%1000)/10)
	}
	return fmt.Sprintf("%.0f", n)
}

func size10(bytes float64) string {
	for _, unit := range []struct {
		name string
		of   float64
	}{{"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}} {
		if bytes >= 0.9995*unit.of {
			return fmt.Sprintf("%.3g %s", bytes/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%.3g MB", bytes/1e6)
}

// span formats a number of months of 30 days.
func span(months float64) string {
	switch days := months * 30; {
	case days < 2:
		return fmt.Sprintf("%.0f hours", 24*days)
	case days < 60:
		return fmt.Sprintf("%.0f days", days)
	case months < 36:
		return fmt.Sprintf("%.0f months", months)
	case months < 12*1000:
		return fmt.Sprintf("%.0f years", months/12)
	}
	return "over 1,000 years"
}
