package job

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	fenced   = regexp.MustCompile("(?s)```.*?```")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linked   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	unlinked = regexp.MustCompile(`[^\pL\pN\-_ ]`)
)

// anchors are the places in a page that a link can name, as GitHub makes them of headings.
func anchors(text string) map[string]bool {
	all := map[string]bool{"": true}
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		all[strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return all
}

// Every link of the manual to a file of the repository leads to one, and to a heading that
// it has.
func TestTheManualsLinksLeadSomewhere(t *testing.T) {
	root := os.DirFS("../..")
	pages, err := fs.Glob(root, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = fs.WalkDir(root, "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".md" {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := fs.ReadFile(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			to := page
			if file != "" {
				to = path.Join(path.Dir(page), file)
			}
			if _, err := fs.Stat(root, to); err != nil {
				t.Errorf("%s: a link to %s: %v", page, m[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			target, err := fs.ReadFile(root, to)
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(target))[anchor] {
				t.Errorf("%s: a link to %s, which has no such heading", page, m[1])
			}
		}
	}
}
