package job

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInvalidFileStillLocatesDaemon, as long as the lines with its address and data folder can be read.
func TestInvalidFileStillLocatesDaemon(t *testing.T) {
	t.Parallel()
	const good = "version: 1\nservice: {url: \"sim://\"}\ndata: \"${FOLDER:-kept}\"\ndaemon:\n  listen: 127.0.0.1:7411\n\n" +
		"jobs: {tea: {every: 1h, search: {query: tea}}}\n"
	for name, c := range map[string]struct {
		text, data, listen string
	}{
		"good":              {good, "kept", "127.0.0.1:7411"},
		"a mistake":         {strings.Replace(good, "every: 1h", "evry: 1h", 1), "kept", "127.0.0.1:7411"},
		"no YAML":           {good + "\t{ : [\n", "kept", "127.0.0.1:7411"},
		"no YAML, Windows":  {strings.ReplaceAll(good+"\t{ : [\n", "\n", "\r\n"), "kept", "127.0.0.1:7411"},
		"cut off":           {good[:strings.Index(good, "jobs")+9], "kept", "127.0.0.1:7411"},
		"cut off before":    {good[:strings.Index(good, "data:")], "data", ""},
		"data is a list":    {strings.Replace(good, "\"${FOLDER:-kept}\"", "[a, b]", 1), "data", "127.0.0.1:7411"},
		"daemon is no list": {strings.Replace(good, "daemon:\n  listen: 127.0.0.1:7411\n", "daemon: 7411\n", 1), "kept", ""},
		"a text":            {"tea", "data", ""},
		"empty":             {"", "data", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "jobs.yaml")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			data, d := DaemonOf(path, func(string) (string, bool) { return "", false })
			if want := filepath.Join(filepath.Dir(path), c.data); data != want || d.Listen != c.listen {
				t.Errorf("data %s at %q, want %s at %q", data, d.Listen, want, c.listen)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "gone.yaml")
	data, _ := DaemonOf(path, func(name string) (string, bool) { return "/mnt/data", name == "OUTLIERD_DATA" })
	if data != "/mnt/data" {
		t.Errorf("data %s of a file that is gone, want that of OUTLIERD_DATA", data)
	}
}
