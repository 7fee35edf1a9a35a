package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// eachKey calls see with every key of the schema, by definition and name.
func eachKey(t *testing.T, see func(name string, key map[string]any)) {
	t.Helper()
	var visit func(name string, part any)
	visit = func(name string, part any) {
		switch part := part.(type) {
		case map[string]any:
			see(name, part)
			for key, inner := range part {
				visit(name+"/"+key, inner)
			}
		case []any:
			for _, inner := range part {
				visit(name, inner)
			}
		}
	}
	var doc any
	if err := json.Unmarshal(Schema(), &doc); err != nil {
		t.Fatal(err)
	}
	visit("", doc)
}

func TestFormsOfTheTableAreKnown(t *testing.T) {
	used := map[string]bool{}
	eachKey(t, func(name string, key map[string]any) {
		form, _ := key["x-form"].(string)
		used[form] = true
		if form != "" && forms[form] == nil {
			t.Errorf("%s has the form %q, which nothing parses", name, form)
		}
		if change, given := key["x-change"]; given && change != ChangeRefused && change != ChangeAtRestart {
			t.Errorf("%s has the change %q", name, change)
		}
	})
	for form := range forms {
		if !used[form] {
			t.Errorf("no key has the form %q", form)
		}
	}
}

func TestDefaultsAreDescribed(t *testing.T) {
	count := 0
	eachKey(t, func(name string, key map[string]any) {
		value, given := key["default"]
		description, described := key["description"].(string)
		if !given || !described {
			return
		}
		count++
		if want := fmt.Sprintf("Default: %v", value); !strings.Contains(description, want) {
			t.Errorf("%s does not describe its default, %q", name, want)
		}
	})
	if count < 20 {
		t.Errorf("%d keys have a default", count)
	}
}

func TestChangesAreSortedByTheirEffect(t *testing.T) {
	const file = "version: 1\nservice: {url: \"sim://\"}\njobs: {coffee: {search: {query: x}}}\n"
	earlier := parse(t, file)
	later := parse(t, "timezone: Europe/Berlin\n"+strings.Replace(file, "url: \"sim://\"", "url: \"sim://\", share: 0.5, paging: page", 1)+
		"budget: {renews: on day 3, per_day: 5}\nprivacy: {comment_authors: hash}\n"+
		"sinks: [{duckdb: o.duckdb}]\ndaemon: {ui: off, reload: signal}\n")
	for _, c := range []struct {
		change string
		want   []string
	}{
		{ChangeRefused, []string{"budget.renews", "sinks", "timezone"}},
		{ChangeAtRestart, []string{"daemon.ui", "privacy.comment_authors", "service.share"}},
	} {
		got := later.Changed(earlier, c.change)
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.change, diff)
		}
		if again := later.Changed(later, c.change); again != nil {
			t.Errorf("%s: %v differ from themselves", c.change, again)
		}
	}
}

func TestSecretsAreThoseOfTheTable(t *testing.T) {
	got := schema().SecretKeys()
	slices.Sort(got)
	want := []string{"headers", "healthchecks", "key", "password", "read_token", "token", "webhook"}
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
