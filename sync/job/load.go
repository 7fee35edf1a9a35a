package job

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outlierd/sync/yamltree"
)

// Load reads the file at path. env looks up variables, as os.LookupEnv does. For a file that cannot be read
// or has mistakes, the error is [yamltree.Mistakes].
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	src, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, []byte(src), env)
}

// LoadToRead is [Load] for commands that make no calls: if the service's address or key cannot be
// expanded, that is a warning, and the value is empty. It needs no jobs.
func LoadToRead(path string, env func(string) (string, bool)) (*Config, error) {
	return load(path, env, needs{})
}

// LoadForOnce is [Load] for one-off requests, which need no jobs in the file.
func LoadForOnce(path string, env func(string) (string, bool)) (*Config, error) {
	return load(path, env, needs{service: true})
}

// Parse parses src as the content of the file at path. The error is [yamltree.Mistakes].
func Parse(path string, src []byte, env func(string) (string, bool)) (*Config, error) {
	return parseFor(path, string(src), env, needs{service: true, jobs: true})
}

func parseFor(path, src string, env func(string) (string, bool), needs needs) (*Config, error) {
	b := newBuilder([]source{{path, src}}, env, needs)
	b.fresh = true
	return b.finish()
}

// needs says which parts of the file a command needs.
type needs struct {
	service bool // its address and key: calls will be made
	jobs    bool // at least one
}

func load(path string, env func(string) (string, bool), needs needs) (*Config, error) {
	src, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return parseFor(path, src, env, needs)
}

func readFile(path string) (string, error) {
	src, err := yamltree.ReadFile(path, path, yamltree.MaxBytes)
	if err == nil {
		return src, nil
	}
	hint := ""
	if errors.Is(err, os.ErrNotExist) {
		hint = "`outlierd init` writes one to start from"
	}
	return "", yamltree.Mistakes{{Place: yamltree.Place{File: path, Line: 1, Column: 1}, Message: err.Error(), Hint: hint}}
}

// Unchanged reports whether the file and those that it includes certainly have the content that was loaded. It
// does not parse them, which takes a hundred times as long. It returns false if one has a ${file:…}, because its
// content depends on other files.
func (c *Config) Unchanged() bool {
	names := []string{c.Path}
	for _, path := range c.Include {
		names, _ = addIncluded(names, path)
	}
	return slices.EqualFunc(names, c.sources, func(name string, was source) bool {
		text, err := yamltree.ReadFile(name, name, yamltree.MaxBytes)
		return err == nil && was == source{name, text} && !strings.Contains(text, "${file:")
	})
}

// newBuilder returns a builder for the texts of a file and those that it includes.
func newBuilder(sources []source, env func(string) (string, bool), needs needs) *builder {
	path := sources[0].name
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil { // the working directory is gone
		dir = filepath.Dir(path)
	}
	file := yamltree.New(path, []byte(sources[0].text), withoutKeys)
	return &builder{
		file: file,
		env:  env,
		cfg: &Config{Path: path, Dir: dir, sources: slices.Clip(sources), files: map[string]*yamltree.File{path: file},
			needs: needs, env: env},
	}
}

// finish builds the config. The error is [yamltree.Mistakes].
func (b *builder) finish() (*Config, error) {
	b.buildConfig()
	if found := b.file.Mistakes(); len(found) > 0 {
		return nil, found
	}
	b.cfg.Warnings = b.file.Warnings()
	return b.cfg, nil
}

// builder builds a Config from the tree.
type builder struct {
	file *yamltree.File
	env  func(string) (string, bool)
	cfg  *Config
	root *yamltree.Node

	fresh bool // the included files were not read yet

	run func(file string, words []string) (string, error) // runs a command of a file; nil to run none
}

// readTree parses and checks the file with those that it includes.
func (b *builder) readTree() {
	if b.root = b.file.Parse(); b.root != nil {
		b.includeFiles()
		schema().Check(b.root, b.variables())
	}
}

func (b *builder) buildConfig() {
	b.readTree()
	switch {
	case b.root == nil && len(b.file.Mistakes()) == 0:
		b.file.Report(1, 1, "the file is empty", "`outlierd init` writes one to start from")
		return
	case !b.root.Has(yamltree.Mapping):
		return
	}
	requireKeys(b.root)
	b.cfg.Fingerprint = hashData([]string{fmt.Sprintf("%q", b.cfg.sources), hashNode(b.root)})
	readKeys(b.cfg, schema(), b.root)
	readService(b.cfg, b.root.Get("service"))
	b.placeData(b.root.Get("data"))
	checkBudget(b.cfg, b.root.Get("budget"))
	readSinks(b.cfg, b.root.Get("sinks"))
	readBackup(b.cfg, b.root.Get("backup"))
	b.readFilters(b.root.Get("filters"))
	readTargets(b.cfg, b.root.Get("notify"))
	readAlerts(b.cfg, b.root, b.root.Get("alerts"))
	readReports(b.cfg, b.root, b.root.Get("reports"))
	readQuestions(b.cfg, b.root.Get("questions"))
	checkTokens(b.cfg, b.root.Get("daemon"))
	b.readJobs(b.root.Get("jobs"))
	readTables(b.cfg, b.root.Get("tables"))
	b.cfg.worded = b.wordSettings()
	refuseUncapped(b.cfg, b.root, b.root.Get("budget"))
	if len(b.file.Mistakes()) > 0 {
		return // of which some might cause what follows, such as a wrong schedule
	}
	refuseShortAuto(b.cfg, b.root)
	warnRefreshAfter(b.cfg, b.root)
	warnBudget(b.cfg, b.root)
}

// hashNode returns a hash of a value with all that is in it, after expansion.
func hashNode(n *yamltree.Node) string {
	return hashData(inlineText(n, func(n *yamltree.Node) string { return fmt.Sprintf("%q %q", n.Text, n.Pattern) }))
}
