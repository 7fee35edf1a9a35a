package command

import (
	"os/exec"
	"strings"
	"testing"
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
			program := "import sys; sys.stdout.buffer.write(" + pythonText(path) + ".encode())"
			got, err := exec.CommandContext(t.Context(), "python3", "-c", program).Output()
			if string(got) != path || err != nil {
				t.Errorf("Python reads %q as %q (%v)", path, got, err)
			}
		}
		if got := strings.ReplaceAll(strings.Trim(sqlText(path), "'"), "''", "'"); got != path {
			t.Errorf("SQL reads %q as %q", path, got)
		}
	}
	if got, want := rText(`a"b\c`), `"a\"b\\c"`; got != want {
		t.Errorf("for R: got %s, want %s", got, want)
	}
	if got, want := globText("/a[1]*?"), "/a[[]1][*][?]"; got != want {
		t.Errorf("as a pattern: got %s, want %s", got, want)
	}
}

// TestTryToolReportsEachOutcome: a tool that works, fails, is missing, or lacks a module.
func TestTryToolReportsEachOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command []string
		want    string
	}{
		"counts":  {[]string{"sh", "-c", "echo 40"}, "ok: 40 outliers"},
		"fails":   {[]string{"sh", "-c", "echo first >&2; echo last >&2; exit 1"}, "failed: last"},
		"missing": {[]string{"no-such-tool"}, "not tried: no-such-tool is not on the PATH"},
		"part":    {[]string{"sh", "-c", "echo no module; exit 77"}, "not tried: no module"},
		"none":    {nil, "not tried: has no command line"},
	} {
		if got := tryTool(t.Context(), "t", "duckdb", c.command); got.Status+": "+got.Found != c.want {
			t.Errorf("%s: got %s: %s, want %s", name, got.Status, got.Found, c.want)
		}
	}
}
