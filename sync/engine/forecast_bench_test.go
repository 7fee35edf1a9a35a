package engine

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// BenchmarkForecast computes what `plan` prints for a hundred jobs, of which ten are due each
// minute. It must take less than 0.3 s.
func BenchmarkForecast(b *testing.B) {
	for _, pace := range []string{"", ", pace: even"} {
		b.Run(strings.TrimPrefix(pace, ", pace: "), func(b *testing.B) {
			var file strings.Builder
			fmt.Fprintf(&file, "version: 1\nservice: {url: \"sim://\", limit: 10/min}\nbudget: {per_month: 4000%s}\njobs:\n", pace)
			for i := range 100 {
				when := fmt.Sprintf("%d %d * * %d", i%60, i%24, i%7)
				if i%10 == 0 {
					when = "* * * * *"
				}
				fmt.Fprintf(&file, "  job-%d:\n    schedule: %q\n    for_each: {topic: [tea, coffee, milk]}\n"+
					"    search: {query: [\"${topic} %d\"], pages: 2, where: {published_at: since last success}}\n"+
					"    budget: {per_run: 8}\n", i, when, i)
			}
			dir := b.TempDir()
			none := func(string) (string, bool) { return "", false }
			config, err := job.Parse(filepath.Join(dir, "jobs.yaml"), []byte(file.String()), none)
			if err != nil {
				b.Fatal(err)
			}
			folder := filepath.Join(dir, "state")
			store, err := state.Open(b.Context(), folder, state.Options{
				Service: config.Service.URL, Location: config.Timezone, Renews: config.Budget.Renews,
			})
			if err != nil {
				b.Fatal(err)
			}
			e := &Engine{Config: config, Store: store, Client: &outlier.Client{}}
			for b.Loop() {
				f, err := forecasts(e).Forecast(b.Context())
				if err != nil || len(f.Jobs) != 100 || f.Jobs[1].Problem != "" {
					b.Fatal(f, err)
				}
			}
			if err := store.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
