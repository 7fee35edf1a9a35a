package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// replacements are used instead of required keys, without which a job would be invalid.
var replacements = map[string]map[string]any{
	"search.query":             {"query": "another"},
	"find_channels.query":      {"query": "another"},
	"find_channels.related_to": {"related_to": "UCabcdefghijkl1234567890"},
	"channels.id":              {"id": "UCabcdefghijkl1234567890"},
	"videos.id":                {"id": "aqz-KE-bpKQ"},
	"scan.query":               {"channel_id": "UCabcdefghijkl1234567890"},
	"scan.channel_id":          {"query": "another"},
	"trending_formats.niche":   {"niche": "another"},
}

// A wish is the verb of a job of testdata/interface.yaml with its keys, named filters resolved.
type wish struct {
	verb string
	asks map[string]any
}

func wished(t *testing.T) map[string]wish {
	t.Helper()
	var file struct {
		Filters map[string]map[string]any
		Jobs    map[string]map[string]map[string]any
	}
	if err := yaml.Unmarshal([]byte(interfaceFile(t)), &file); err != nil {
		t.Fatal(err)
	}
	all := map[string]wish{}
	for name, verbs := range file.Jobs {
		for verb, asks := range verbs {
			if where, _ := asks["where"].(map[string]any); where["use"] != nil {
				asks["where"] = file.Filters[where["use"].(string)]
			}
			all[name] = wish{verb, asks}
		}
	}
	return all
}

// value returns the value of a key such as search.where.z_score, or nil.
func (w wish) value(key string) any {
	path := strings.Split(key, ".")
	if path[0] != w.verb {
		return nil
	}
	var at any = w.asks
	for _, name := range path[1:] {
		within, _ := at.(map[string]any)
		at = within[name]
	}
	return at
}

// without returns the wish without a key, or with its replacement.
func (w wish) without(key string) wish {
	asks := maps.Clone(w.asks)
	if filter, of := strings.CutPrefix(key, w.verb+".where."); of {
		where := maps.Clone(asks["where"].(map[string]any))
		delete(where, filter)
		asks["where"] = where
	} else {
		delete(asks, strings.TrimPrefix(key, w.verb+"."))
	}
	maps.Copy(asks, replacements[key])
	return wish{w.verb, asks}
}

// sends returns the values that are sent for the wish, by endpoint and parameter: "GET /search/outliers query".
func (w wish) sends(t *testing.T) map[string][]string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"version": 1, "service": map[string]any{"url": job.Simulator},
		"jobs": map[string]any{"it": map[string]any{w.verb: w.asks}},
	})
	if err != nil {
		t.Fatal(err)
	}
	config, err := job.Parse("jobs.yaml", text, func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	spec := &config.Jobs[0]
	work, err := spec.Resolve(job.Inputs{Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, ask := range work.Asks {
		sendsOf(all, spec, ask)
	}
	for _, fetch := range spec.Fetch {
		for _, id := range work.IDs {
			all["GET "+fetch.Op.Path()+"{id} id"] = []string{id}
		}
	}
	return all
}

// sendsOf adds what an ask sends: its parameters, those of its pages, and the polls of a scan.
func sendsOf(all map[string][]string, spec *job.Spec, ask job.Ask) {
	endpoint := "GET " + ask.Query.Op().Path()
	switch {
	case ask.Query.Op() == outlier.OpStartScan:
		endpoint = "POST /scan"
		all["GET /scan/{id} id"] = []string{spec.Scan.PollMin.String(), spec.Scan.PollMax.String()}
	case ask.Query.Op() != outlier.OpTrendingFormats:
		for page := range spec.Pages {
			all[endpoint+" from"] = append(all[endpoint+" from"], fmt.Sprint(page))
			all[endpoint+" size"] = append(all[endpoint+" size"], fmt.Sprint(outlier.MaxSize))
		}
	}
	for name, values := range ask.Query.Params() {
		all[endpoint+" "+name] = values
	}
}

// TestEachKeySendsItsParametersOnly removes each key from the job, or replaces its value. Exactly the parameters that
// the key sends change, and they had the value of the key before.
func TestEachKeySendsItsParametersOnly(t *testing.T) {
	t.Parallel()
	rows := map[string][]string{} // parameters, by key
	for p := range parameters(t) {
		at := strings.LastIndex(p, " ")
		for _, key := range keysThatSend(p[:at], p[at+1:]) {
			rows[key] = append(rows[key], p)
		}
	}
	shown := map[string]bool{}
	for name, w := range wished(t) {
		all := w.sends(t)
		for key, documented := range rows {
			if w.value(key) == nil {
				continue
			}
			var want []string
			for _, p := range documented {
				if endpoint := p[:strings.LastIndex(p, " ")]; asksOf(all, endpoint) {
					want, shown[key+" "+p] = append(want, p), true
				}
			}
			slices.Sort(want)
			got := changes(all, w.without(key).sends(t))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("job %s: parameters of %s (-documented +sent):\n%s", name, key, diff)
			}
			for _, p := range got {
				if !says(w.value(key), p, all[p]) {
					t.Errorf("job %s: %s: %v is sent as %s %q", name, key, w.value(key), p, all[p])
				}
			}
		}
	}
	for key, documented := range rows {
		for _, p := range documented {
			if !shown[key+" "+p] {
				t.Errorf("%s: no job of testdata/interface.yaml has %s and calls the endpoint", p, key)
			}
		}
	}
}

func asksOf(all map[string][]string, endpoint string) bool {
	for key := range all {
		if key[:strings.LastIndex(key, " ")] == endpoint {
			return true
		}
	}
	return false
}

// changes returns the parameters that differ.
func changes(a, b map[string][]string) (names []string) {
	union := maps.Clone(a)
	maps.Copy(union, b)
	for name := range union {
		if !slices.Equal(a[name], b[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// says reports whether the value of a key has what was sent as its parameter. Parameters of paging, and what a
// scan starts from, follow from the key itself.
func says(value any, parameter string, sent []string) bool {
	name := parameter[strings.LastIndex(parameter, " ")+1:]
	if name == "from" || name == "size" || name == "findBy" || parameter == "GET /scan/{id} id" {
		return true
	}
	text := fmt.Sprint(value)
	if from, to, ranged := strings.Cut(text, ".."); ranged {
		end := map[bool]string{true: from, false: to}[strings.HasSuffix(name, "From")]
		return len(sent) == 1 && strings.HasPrefix(sent[0], end)
	}
	fold := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	for _, s := range sent {
		if !strings.Contains(fold(text), fold(s)) {
			return false
		}
	}
	return len(sent) > 0
}
