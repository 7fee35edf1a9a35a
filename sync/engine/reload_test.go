package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestStartTellsWhatChangedSinceTheLastOne: nothing at first and nothing where nothing changed.
func TestStartTellsWhatChangedSinceTheLastOne(t *testing.T) {
	t.Parallel()
	const before = "version: 1\nservice: {url: \"sim://\"}\njobs:\n  coffee: {every: 1h, search: {query: tea, pages: 2}}\n  tea: {search: {query: tea}}\n"
	bare(t, before, func(w *workshop) {
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		start := func() string {
			w.Helper()
			log.Reset()
			w.inspect(func(e *Engine) {
				if err := e.NoteJobs(); err != nil {
					w.Fatal(err)
				}
			})
			return log.String()
		}
		if said := start() + start(); said != "" {
			t.Errorf("without a change the log says %s", said)
		}
		w.use(strings.NewReplacer("pages: 2", "pages: 3", "  tea:", "  rivals:").Replace(before))
		said := start()
		for _, want := range []string{
			`msg="job changed" job=coffee changes="pages 2 → 3"`,
			`msg="job is new" job=rivals`, `msg="job is gone; its data stays" job=tea`,
		} {
			if strings.Count(said, want) != 1 {
				t.Errorf("the log does not say %s once:\n%s", want, said)
			}
		}
		if said := start(); said != "" {
			t.Errorf("the next start says it again: %s", said)
		}
	})
}
