package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"outlierd/sync/yamltree"
)

// # Included files
//
// A job file may name others with `include`. What they have is added to its sections whose keys are names, such as
// jobs, before anything is read from them: so it does not matter in which file a job stands, and only places name the
// file. Paths in an included file are relative to the folder of the job file, like all others.

// source is the text of one file.
type source struct{ name, text string }

// includeFiles adds the entries of the included files to the root.
func (b *builder) includeFiles() {
	schema().Get("include").Check(b.root.Get("include"), b.variables())
	if b.fresh {
		readIncluded(b.cfg, b.root)
	}
	for _, s := range b.cfg.sources[1:] {
		file := b.file.Part(s.name, []byte(s.text))
		b.cfg.files[s.name] = file
		switch part := file.Parse(); {
		case part == nil: // an empty file, or one that was refused
		case part.Kind != yamltree.Mapping:
			part.Refuse("must be a mapping with %s, got %s", strings.Join(schema().NamedKeys(), ", "), part.Shown())
		default:
			b.addEntries(part)
		}
	}
}

// readIncluded reads the included files.
func readIncluded(c *Config, root *yamltree.Node) {
	names, size := []string{c.Path}, len(c.sources[0].text)
	for _, n := range root.Get("include").Members() {
		if !n.Has(yamltree.Text) {
			continue
		}
		known := len(names)
		var err error
		if names, err = addIncluded(names, n.Text); err != nil {
			n.RefuseQuoting(err.Error())
		}
		for _, name := range names[known:] {
			text, err := yamltree.ReadFile(name, name, yamltree.MaxBytes)
			size += len(text)
			if err == nil && size > yamltree.MaxBytes {
				err = fmt.Errorf("the file and those that it includes have more than %d bytes", yamltree.MaxBytes)
			}
			if err != nil {
				n.RefuseQuoting(err.Error())
				return
			}
			c.sources = append(c.sources, source{name, text})
		}
	}
}

// addIncluded adds the files that a path in `include` names to those that are known, the first of which is the job
// file. The last element of the path may have wildcards. Like a shell, it does not match hidden files, which editors
// leave while they work. A folder that does not exist is an error: if it is gone for a moment, its jobs are not
// removed.
func addIncluded(known []string, path string) ([]string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(known[0]), path)
	}
	folder, pattern := filepath.Split(path)
	found := []string{filepath.Clean(path)}
	if strings.ContainsAny(pattern, `*?[\`) {
		if _, err := filepath.Match(pattern, ""); err != nil {
			return known, fmt.Errorf("%q is not a pattern: %w", path, err)
		}
		entries, err := os.ReadDir(filepath.Clean(folder))
		if errors.Is(err, fs.ErrNotExist) {
			return known, errors.New("the folder does not exist; an empty one is fine")
		} else if err != nil {
			return known, fmt.Errorf("no file is included: %w", err)
		}
		found = nil
		for _, e := range entries {
			if fits, _ := filepath.Match(pattern, e.Name()); fits && !strings.HasPrefix(e.Name(), ".") {
				found = append(found, filepath.Join(folder, e.Name()))
			}
		}
	}
	return append(known, slices.DeleteFunc(found, func(name string) bool {
		return name == filepath.Clean(known[0]) || slices.Contains(known[1:], name)
	})...), nil
}

// addEntries adds the entries of an included file, in which each name must be new.
func (b *builder) addEntries(part *yamltree.Node) {
	for _, e := range part.Entries {
		section, of := b.root.Get(e.Key.Text), schema().Get(e.Key.Text)
		switch {
		case of != nil && !slices.Contains(schema().NamedKeys(), e.Key.Text):
			e.Key.RefuseWithHint("move it to "+b.cfg.Path, "an included file has only %s",
				strings.Join(schema().NamedKeys(), ", "))
		case section == nil || of == nil: // an unknown key is refused in each file
			b.root.Entries = append(b.root.Entries, e)
		case section.Kind != yamltree.Mapping || e.Value.Kind != yamltree.Mapping:
			of.Check(e.Value, b.variables())
		default:
			for _, named := range e.Value.Entries {
				if first := section.Get(named.Key.Text); first != nil {
					named.Key.Refuse("duplicate key, first at %s", first.Key.At())
					continue
				}
				section.Entries = append(section.Entries, named)
			}
		}
	}
}

// requireKeys refuses a job file without the keys that each has. A file without any key of its own is probably one
// that another includes.
func requireKeys(root *yamltree.Node) {
	own := slices.ContainsFunc(root.Keys(), func(key string) bool { return !slices.Contains(schema().NamedKeys(), key) })
	for _, key := range []string{"version", "service"} {
		hint := schema().SuggestKey(key)
		if !own {
			hint += ", or name the file that includes this one with --config"
		}
		if root.Get(key) == nil {
			root.Missing(key, hint)
		}
	}
}
