package job

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const earlierFile = head + `
lists: {topics: [moka pot, latte art]}
filters: {breakout: {z_score: 2..}}
defaults: {stop_after: 60m}
jobs:
  coffee: {every: 6h, search: {query: [home espresso], pages: 2, where: {use: breakout}}}
  tea: {search: {query: "${SECRET}"}}
  pots: {for_each: {topic: {list: topics}}, search: {query: "${topic}"}}
  old: {search: {query: cocoa}}
`

// A change of the job file is described with the job names, keys and values of the file.
func TestChangesUseKeysOfFile(t *testing.T) {
	renamed := strings.Replace(earlierFile, "  old: {", "  new: {was: old, ", 1)
	for _, c := range []struct {
		name, file string
		want       []Change
	}{
		{"nothing", earlierFile, nil},
		{"an order of keys", strings.Replace(earlierFile, "query: [home espresso], pages: 2", "pages: 2, query: [home espresso]", 1), nil},
		{"a schedule", strings.Replace(earlierFile, "every: 6h, ", "", 1), []Change{
			{Job: "coffee", Kind: JobChanged, Changes: "every 6h → not set"}}},
		{"a setting", strings.Replace(earlierFile, "pages: 2", "pages: 3, sort: views desc", 1), []Change{
			{Job: "coffee", Kind: JobChanged, Changes: "pages 2 → 3; sort not set → views desc"}}},
		{"a filter that it uses", strings.Replace(earlierFile, "2..", "1..", 1), []Change{
			{Job: "coffee", Kind: JobChanged, Changes: "where.z_score 2.. → 1.."}}},
		{"a list that it uses", strings.Replace(earlierFile, "[moka pot,", "[ibrik,", 1), []Change{
			{Job: "pots", Kind: JobChanged, Changes: "for_each.topic [moka pot, latte art] → [ibrik, latte art]"}}},
		{"the verb", strings.Replace(earlierFile, "old: {search: {query", "old: {related: {title", 1), []Change{
			{Job: "old", Kind: JobChanged, Changes: "query cocoa → not set; title not set → cocoa; verb search → related"}}},
		{"what is enabled", strings.Replace(earlierFile, "old: {", "old: {enabled: false, ", 1), []Change{
			{Job: "old", Kind: JobChanged, Changes: "enabled not set → false"}}},
		{"a name", renamed, []Change{{Job: "new", Kind: JobRenamed, Was: "old"}}},
		{"a name and more", strings.Replace(renamed, "cocoa", "cacao", 1), []Change{
			{Job: "new", Kind: JobRenamed, Was: "old", Changes: "query cocoa → cacao"}}},
		{"jobs that come and go", strings.Replace(earlierFile, "  old: {", "  rivals: {", 1), []Change{
			{Job: "old", Kind: JobRemoved}, {Job: "rivals", Kind: JobAdded}}},
		{"the name of a removed job", strings.Replace(
			strings.Replace(earlierFile, `  tea: {search: {query: "${SECRET}"}}`+"\n", "", 1), "  old: {", "  tea: {was: old, ", 1),
			[]Change{{Job: "tea", Kind: JobRemoved}, {Job: "tea", Kind: JobRenamed, Was: "old"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, parse(t, c.file).ChangesSince(kept(t, parse(t, earlierFile)))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// kept is what is known of jobs once it was written down.
func kept(t *testing.T, c *Config) (all []Known) {
	t.Helper()
	text, err := json.Marshal(c.Known())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), secret) {
		t.Error("what came from a variable is kept: ", string(text))
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestExternalValueChangeIsRedacted: the change is reported although the text of the file is the same, and
// the value is not shown.
func TestExternalValueChangeIsRedacted(t *testing.T) {
	before := kept(t, parse(t, earlierFile))
	now, err := Parse("jobs.yaml", []byte(earlierFile), func(name string) (string, bool) { return "CANARY-OTHER", name == "SECRET" })
	if err != nil {
		t.Fatal(err)
	}
	got := now.ChangesSince(before)
	if len(got) != 1 || got[0].Job != "tea" || !strings.HasPrefix(got[0].Changes, "what it takes from variables") {
		t.Errorf("changes %+v, want one of tea", got)
	}
}

// TestManyAndLongChangesAreCut, and a long text that differs beyond the cut is still told of.
func TestManyAndLongChangesAreCut(t *testing.T) {
	long := strings.Repeat("very ", 40)
	was := &Known{Settings: map[string]string{"sql": long + "old"}}
	is := &Known{Settings: map[string]string{"sql": long + "new"}}
	if got := listDifferences(was, is); got != "sql changed" {
		t.Errorf("of two long texts it says %q", got)
	}
	for _, name := range strings.Split("abcdefghij", "") {
		is.Settings[name] = "1"
	}
	if got := listDifferences(was, is); !strings.HasSuffix(got, "; and 3 more") {
		t.Errorf("of eleven differences it says %q", got)
	}
}
