// Command thirdparty writes THIRD_PARTY.md: the licences of everything that is linked into the official
// binaries. It reads the modules' own files, without the network, and fails for a licence that is not
// on its list. With -check it compares THIRD_PARTY.md instead of writing it.
//
//	go -C .ci/tools tool thirdparty
package main

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// permissive are the licences that may be linked in.
var permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC", "MIT",
	"MIT-0", "PostgreSQL", "Unicode-TOU", "Zlib"}

// stated are the licences of texts that the library does not know. Each was read by a person.
var stated = map[string]string{
	"DuckDB: icu": "Unicode-DFS-2016",
}

// unlinked are files about what a module's repository has, but its packages do not link in.
var unlinked = map[string]string{
	"modernc.org/sqlite": "LICENSE-3RD-PARTY.md", // its first section lists modules, which stand here anyway
}

// patentGrant is what the library calls Go's PATENTS file, which grants rights beside the licence.
const patentGrant = "GooglePatentsFile"

// linked are the licences of what is linked in beside Go modules.
//
//go:embed linked
var linked embed.FS

// A component is a module or a library that is linked in.
type component struct {
	Name, Version string
	Licences      []string // SPDX identifiers, sorted
	texts         []text
}

// A text is one file about a component's licence.
type text struct{ name, content string }

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense|patents)`)

func main() {
	root := flag.String("root", filepath.Join("..", ".."), "folder of the repository")
	check := flag.Bool("check", false, "compare THIRD_PARTY.md instead of writing it")
	sbom := flag.String("sbom", "", "write a bill of materials (CycloneDX, JSON) to this file instead")
	release := flag.String("release", "dev", "version of outlierd in the bill of materials")
	flag.Parse()
	if err := run(*root, *check, *sbom, *release); err != nil {
		fmt.Fprintln(os.Stderr, "thirdparty:", err)
		os.Exit(1)
	}
}

func run(root string, check bool, sbom, release string) error {
	components, err := findComponents(root)
	if err != nil {
		return err
	}
	if sbom != "" {
		return writeSBOM(sbom, release, components)
	}
	page := renderPage(components)
	path := filepath.Join(root, "THIRD_PARTY.md")
	if !check {
		return os.WriteFile(path, page, 0o644)
	}
	if old, err := os.ReadFile(path); err != nil {
		return err
	} else if !bytes.Equal(old, page) {
		return errors.New("THIRD_PARTY.md does not list what is linked in: write it with `make licences`")
	}
	return nil
}

// findComponents returns all components, sorted by name. The error names every licence that is not permissive.
func findComponents(root string) ([]component, error) {
	components, err := findModules(root)
	if err != nil {
		return nil, err
	}
	more, err := readLinked()
	if err != nil {
		return nil, err
	}
	components = append(components, more...)
	slices.SortFunc(components, func(a, b component) int { return strings.Compare(a.Name, b.Name) })
	var refused []error
	for i := range components {
		c := &components[i]
		c.Licences, err = classify(c)
		refused = append(refused, err)
	}
	return components, errors.Join(refused...)
}

// findModules lists the modules whose packages are linked into the official binaries for linux/amd64. On
// arm64 they are the same, but for the folder of DuckDB's library.
func findModules(root string) ([]component, error) {
	tags, err := os.ReadFile(filepath.Join(root, ".ci", "tags"))
	if err != nil {
		return nil, err
	}
	list := exec.Command("go", "list", "-deps", "-tags", strings.TrimSpace(string(tags)), "-json=Module", "./cmd/outlierd")
	list.Dir, list.Stderr = root, os.Stderr
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1", "GOFLAGS=-mod=readonly")
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var found []component
	seen := map[string]bool{}
	for packages := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := packages.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if pkg.Module == nil || pkg.Module.Main || seen[pkg.Module.Path] {
			continue
		}
		seen[pkg.Module.Path] = true
		texts, err := readTexts(os.DirFS(pkg.Module.Dir))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pkg.Module.Path, err)
		}
		texts = slices.DeleteFunc(texts, func(t text) bool { return t.name == unlinked[pkg.Module.Path] })
		found = append(found, component{Name: pkg.Module.Path, Version: pkg.Module.Version, texts: texts})
	}
	return found, nil
}

func readTexts(folder fs.FS) (texts []text, err error) {
	entries, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() || !licenceFile.MatchString(e.Name()) {
			continue
		}
		content, err := fs.ReadFile(folder, e.Name())
		if err != nil {
			return nil, err
		}
		texts = append(texts, text{e.Name(), string(content)})
	}
	return texts, nil
}

// readLinked reads the licences of what is linked in beside modules, from files NAME.txt.
func readLinked() (found []component, err error) {
	entries, err := linked.ReadDir("linked")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		content, err := linked.ReadFile("linked/" + e.Name())
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(e.Name(), ".txt")
		if library, ok := strings.CutPrefix(name, "duckdb-"); ok {
			name = "DuckDB: " + library
		}
		found = append(found, component{Name: name, texts: []text{{"LICENSE", string(content)}}})
	}
	return found, nil
}

// classify returns the licences of a component, or an error if one is unknown or not permissive.
func classify(c *component) (licences []string, err error) {
	if id := stated[c.Name]; id != "" {
		return []string{id}, nil
	}
	for _, t := range c.texts {
		found := licensecheck.Scan([]byte(t.content))
		for _, m := range found.Match {
			if !m.IsURL && m.ID != patentGrant {
				licences = append(licences, m.ID)
			}
		}
	}
	slices.Sort(licences)
	licences = slices.Compact(licences)
	for _, id := range licences {
		if !slices.Contains(permissive, id) {
			err = errors.Join(err, fmt.Errorf("%s: licence %s is not on the list of permissive ones", c.Name, id))
		}
	}
	if len(licences) == 0 {
		err = fmt.Errorf("%s: no known licence in %d files", c.Name, len(c.texts))
	}
	return licences, err
}

const heading = `# Third-party licences

Written by ` + "`make licences`" + `. outlierd itself has the licence in [LICENSE](LICENSE).

The official binaries contain the components of this table. The texts of their licences follow, each once. The
Apache License 2.0 is in [LICENSE](LICENSE).

Besides, the binaries contain parts of the GNU C++ library, under the GPL 3.0 with the GCC Runtime Library Exception 3.1,
which allows this without conditions, and the time zone database, which is in the public domain.

| Component | Version | Licences |
|---|---|---|
`

// renderPage returns the content of THIRD_PARTY.md.
func renderPage(components []component) []byte {
	var page bytes.Buffer
	page.WriteString(heading)
	for _, c := range components {
		fmt.Fprintf(&page, "| %s | %s | %s |\n", c.Name, cmp.Or(c.Version, "–"), strings.Join(c.Licences, ", "))
	}
	type printed struct {
		title, content string
		of             []string
	}
	var order []*printed
	by := map[string]*printed{}
	for _, c := range components {
		for _, t := range c.texts {
			if isApacheAlone(t.content) {
				continue
			}
			key := strings.Join(strings.Fields(t.content), " ")
			if by[key] == nil {
				by[key] = &printed{title: t.name, content: t.content}
				order = append(order, by[key])
			}
			by[key].of = append(by[key].of, c.Name)
		}
	}
	for _, p := range order {
		content := strings.ReplaceAll(strings.TrimRight(p.content, "\n \t"), "\r", "")
		fence := "```"
		for strings.Contains(content, fence) {
			fence += "`"
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n%stext\n%s\n%s\n", strings.Join(p.of, ", "), p.title, fence, content, fence)
	}
	return page.Bytes()
}

// isApacheAlone reports whether a text is that of the Apache License 2.0, as in LICENSE, and nothing else.
func isApacheAlone(content string) bool {
	found := licensecheck.Scan([]byte(content))
	for _, m := range found.Match {
		if m.ID != "Apache-2.0" {
			return false
		}
	}
	return len(found.Match) > 0 && found.Percent > 95 && len(content) > 5000
}
