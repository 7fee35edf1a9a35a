package job

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// Load reads the file at path. Variables come from env, which is os.LookupEnv outside
// of tests. A file that cannot be read, as one with mistakes, gives [Mistakes].
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	return load(path, env, false)
}

// LoadToRead is [Load] for commands that make no call: an address or a key of the service
// that cannot be filled in is a warning, and missing in the result.
func LoadToRead(path string, env func(string) (string, bool)) (*Config, error) {
	return load(path, env, true)
}

func load(path string, env func(string) (string, bool), reading bool) (*Config, error) {
	src, err := readRegular(path, path, maxBytes)
	if err != nil {
		hint := ""
		if errors.Is(err, os.ErrNotExist) {
			hint = "`outlierd init` writes one to begin with"
		}
		return nil, Mistakes{{File: path, Line: 1, Column: 1, Message: err.Error(), Hint: hint}}
	}
	return parseFile(path, []byte(src), env, reading)
}

// Parse reads src as if it were the file at path. The error is [Mistakes].
func Parse(path string, src []byte, env func(string) (string, bool)) (*Config, error) {
	return parseFile(path, src, env, false)
}

func parseFile(path string, src []byte, env func(string) (string, bool), reading bool) (*Config, error) {
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, Mistakes{{File: path, Line: 1, Column: 1, Message: fmt.Sprintf("find the folder of the file: %v", err)}}
	}
	b := newBuilder(path, src, env)
	b.cfg.Dir, b.reading = dir, reading
	if b.legible(src) {
		b.build()
	}
	if len(b.found) > 0 {
		return nil, b.found.tidy()
	}
	b.cfg.Warnings = b.warnings.tidy()
	return b.cfg, nil
}

func newBuilder(path string, src []byte, env func(string) (string, bool)) *builder {
	return &builder{
		source: newSource(path, clean(src)),
		env:    env,
		cfg:    &Config{Path: path, src: src, env: env},
		named:  map[string]*node{},
		merged: map[*node]map[string]*node{},
	}
}

// clean is src as text with plain line ends and without a byte order mark.
func clean(src []byte) string {
	if len(src) > maxBytes {
		src = nil
	}
	text := strings.TrimPrefix(strings.ToValidUTF8(string(src), "\uFFFD"), "\uFEFF")
	return strings.ReplaceAll(text, "\r\n", "\n")
}

// legible reports what makes it pointless to look for YAML.
func (b *builder) legible(src []byte) bool {
	switch {
	case len(src) > maxBytes:
		b.at(1, 1, fmt.Sprintf("the file has %d bytes; at most %d are read", len(src), maxBytes), "")
	case !utf8.Valid(src):
		for i, line := range b.lines {
			if before, _, found := strings.Cut(line, "\uFFFD"); found {
				b.at(i+1, utf8.RuneCountInString(before)+1, "this is no UTF-8 text", "save the file as UTF-8")
				break
			}
		}
	default:
		return true
	}
	return false
}

// builder makes a Config of the tree.
type builder struct {
	*source
	env  func(string) (string, bool)
	cfg  *Config
	root *node

	defaults *node                      // what jobs have that do not say otherwise
	named    map[string]*node           // the filters, by name
	merged   map[*node]map[string]*node // what a filter or a where comes to, by snake_case name
	open     []string                   // the filters that are being merged
	reading  bool                       // no call will be made: neither address nor key is needed
}

func (b *builder) build() {
	b.root = b.read(strings.Join(b.lines, "\n"))
	switch {
	case b.root == nil && len(b.found) == 0:
		b.at(1, 1, "the file is empty", "`outlierd init` writes one to begin with")
		return
	case b.root == nil:
		return
	}
	b.expand()
	if b.reading {
		b.unneeded(b.root.get("service").get("url"), "address")
		b.unneeded(b.root.get("service").get("key"), "key")
	}
	b.shape(b.root, "")
	b.timezone(b.root.get("timezone"))
	b.service(b.root.get("service"))
	b.data(b.root.get("data"))
	b.budget(b.root.get("budget"))
	b.sinks(b.root.get("sinks"))
	b.cfg.SinksDownAfter = cmp.Or(b.duration(b.root.get("sinks_down_after")), sinksDownAfter)
	b.filters(b.root.get("filters"))
	b.jobs(b.root.get("jobs"))
	b.budgeted(b.root.get("budget"))
	b.leftovers()
	b.idle()
	b.ages()
	b.floor()
}
