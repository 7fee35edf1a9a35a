package command

import (
	"os/exec"
	"strings"
	"testing"

	"outlierd/sinks/duckdb/database"
)

// TestPathsAreQuotedForEachLanguage, with a real shell, and with Python if it is installed.
func TestPathsAreQuotedForEachLanguage(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/data/plain", "/with space/a'b\"c", `/back\slash`, "/Übung ☕ 𝔘", "/$HOME/`id`/$(id)", "/new\nline", "/{x}%s",
	} {
		got, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shellText(path)).Output()
		if string(got) != path || err != nil {
			t.Errorf("the shell reads %q as %q (%v)", path, got, err)
		}
		if _, err := exec.LookPath("python3"); err == nil {
			program := "import sys; sys.stdout.buffer.write(" + quoted(path) + ".encode())"
			got, err := exec.CommandContext(t.Context(), "python3", "-c", program).Output()
			if string(got) != path || err != nil {
				t.Errorf("Python reads %q as %q (%v)", path, got, err)
			}
		}
		if got := strings.ReplaceAll(strings.Trim(database.Text(path), "'"), "''", "'"); got != path {
			t.Errorf("SQL reads %q as %q", path, got)
		}
	}
	if got, want := quoted(`a"b\c`), `"a\"b\\c"`; got != want {
		t.Errorf("for R: got %s, want %s", got, want)
	}
	if got, want := globText("/a[1]*?"), "/a[[]1][*][?]"; got != want {
		t.Errorf("as a pattern: got %s, want %s", got, want)
	}
}
