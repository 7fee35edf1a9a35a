package job

import (
	"strings"
	"testing"
)

// mistaken checks that a file is refused with these words, and that it is not once the
// mistake is put right.
func mistaken(t *testing.T, file, words, wrong, right string) {
	t.Helper()
	env := func(name string) (string, bool) { return "x", name == "topic" || name == "OUTLIERD_KEY" }
	parsed := func(file string) error {
		_, err := Parse("jobs.yaml", []byte(file), env)
		return err
	}
	if err := parsed(file); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("error %v, want one that says %q of\n%s", err, words, file)
	}
	if err := parsed(strings.ReplaceAll(file, wrong, right)); err != nil {
		t.Errorf("with %q in place of %q:\n%v", right, wrong, err)
	}
}

// A for_each name that equals a set environment variable is an error.
func TestNameOfEnvironmentVariableIsRefused(t *testing.T) {
	mistaken(t, head+`jobs: {a: {for_each: {topic: [x]}, search: {query: "${topic}"}}}`, "environment", "topic", "subject")
}

// SQL seeds without a DuckDB sink are refused.
func TestSeedsRequireDuckDBSink(t *testing.T) {
	for _, seeded := range []string{
		`related: {video_id: {sql: select video_id from outliers}}`,
		`videos: {id: {sql: select video_id from outliers}}`,
		`channels: {id: {sql: select channel_id from outliers}}`,
		`for_each: {t: {sql: select title from outliers}}, search: {query: "${t}"}`,
	} {
		mistaken(t, head+"sinks: [{parquet: files}]\njobs: {a: {"+seeded+"}}", "needs a duckdb sink", "parquet: files", "duckdb: files")
	}
}

// Pages default to one, and `pages: all` requires budget.per_run.
func TestUnlimitedPagesRequirePerRunCap(t *testing.T) {
	if got := one(t, "search: {query: tea}").Pages; got > 1 {
		t.Errorf("%d pages where the file does not say, want 1", got)
	}
	mistaken(t, head+"budget: {per_month: 400}\njobs: {a: {search: {query: tea, pages: all}}}", "per_run", "pages: all}", "pages: all}, budget: {per_run: 40}")
}

// A monthly budget is required except on the simulator.
func TestRealServiceRequiresMonthlyBudget(t *testing.T) {
	const file = "version: 1\nservice: {url: \"https://api.example.com/v1\", key: \"${OUTLIERD_KEY}\"}\njobs: {a: {search: {query: tea}}}\n"
	mistaken(t, file, "per_month", "version: 1\n", "version: 1\nbudget: {per_month: 400}\n")
	mistaken(t, file, "per_month", `"https://api.example.com/v1", key: "${OUTLIERD_KEY}"`, `"sim://"`)
}

// Within { } YAML demands quotes around a variable, and its value may be a number all the same.
func TestQuotedVariablesMayBeNumbers(t *testing.T) {
	file := head + `budget: {per_month: "${MAX}"}
jobs: {a: {search: {query: "${MAX}", pages: "${PAGES}", where: {classification_is_faceless: "${YES}"}}, about: "${MAX}", enabled: "${YES}"}}
`
	env := func(name string) (string, bool) {
		value, set := map[string]string{"MAX": "400", "PAGES": "3", "YES": "true"}[name]
		return value, set
	}
	config, err := Parse("jobs.yaml", []byte(file), env)
	if err != nil {
		t.Fatal(err)
	}
	job := config.Jobs[0]
	if *config.Budget.PerMonth != 400 || job.Pages != 3 || job.Disabled || job.About != "400" ||
		asks(t, &job)[0].Query.Params().Get("query") != "400" {
		t.Errorf("read as %d credits, %d pages, %+v", *config.Budget.PerMonth, job.Pages, job)
	}
	if _, err := Parse("jobs.yaml", []byte(strings.Replace(file, `"${MAX}"`, `"400"`, 1)), env); err == nil {
		t.Error("a number in quotes is accepted")
	}
}
