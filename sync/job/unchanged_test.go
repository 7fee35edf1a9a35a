package job

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnchanged: a file is unchanged as long as it has the same text, and never if its content depends on other files.
func TestUnchanged(t *testing.T) {
	const text = "version: 1\nservice: {url: \"sim://\"}\njobs: {coffee: {search: {query: tea}}}\n"
	path := filepath.Join(t.TempDir(), "jobs.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := func(text string) *Config {
		t.Helper()
		write(text)
		c, err := Load(path, func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := load(text)
	if !c.Unchanged() {
		t.Error("a file that was not touched has changed")
	}
	write(strings.Replace(text, "tea", "cat", 1))
	if c.Unchanged() {
		t.Error("an edited file has not changed")
	}
	write(text)
	if !c.Unchanged() {
		t.Error("a file whose edit was taken back has changed")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if c.Unchanged() {
		t.Error("a file that is gone has not changed")
	}
	if load(text + "notify: {team: {webhook: \"${file:hook:-}\"}}\n").Unchanged() {
		t.Error("a file that depends on another one has not changed")
	}
}
