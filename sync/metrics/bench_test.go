package metrics

import (
	"path/filepath"
	"testing"

	"outlierd/sync/state"
	"outlierd/sync/state/statetest"
)

// BenchmarkScrape answers scrapes beside a state with a million answers and queued calls, and
// beside an empty one.
func BenchmarkScrape(b *testing.B) {
	for name, make := range map[string]func(dir string){
		"empty": func(string) {},
		"large": func(dir string) {
			statetest.Large(b, dir, func(dir string) error {
				s, err := state.Open(b.Context(), dir, statetest.Options())
				if err != nil {
					return err
				}
				return s.Close()
			})
		},
	} {
		b.Run(name, func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "state")
			make(dir)
			m := measureIn(b, dir)
			m.scrape()
			for b.Loop() {
				m.scrape()
			}
		})
	}
}
