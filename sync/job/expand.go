package job

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxSecret bounds what ${file:…} reads.
const maxSecret = 64 << 10

// variables fills in ${NAME}, ${NAME:-default}, ${file:path} and ${file:path:-default}.
// A variable that is set to nothing counts as not set, as in a shell's ":-". A default
// is plain text up to the next brace. $${ stands for ${ itself.
type variables struct {
	env func(string) (string, bool)
	dir string // what the paths of files are relative to
}

// expand fills in every value of the file. Templates may stand in filters and in
// what a job's verb asks.
func (b *builder) expand() {
	v := variables{b.env, b.cfg.Dir}
	for _, e := range b.root.entries {
		if e.key.text != "jobs" {
			v.tree(e.value, e.key.text == "filters")
			continue
		}
		for _, job := range e.value.entries {
			for _, part := range job.value.entries {
				v.tree(part.value, isVerb(part.key.text))
			}
		}
	}
}

// tree fills in every value below n, templates only as far as it is known with what.
// What cannot be filled in is noted in its node, and reported once it is known that
// somebody wants to read it.
func (v variables) tree(n *node, templates bool) {
	switch {
	case n == nil:
	case n.kind == mapping:
		for _, e := range n.entries {
			v.tree(e.value, templates)
		}
	case n.kind == list:
		for _, item := range n.items {
			v.tree(item, templates)
		}
	case strings.Contains(n.raw, "${"):
		v.scalar(n, templates)
	}
}

func (v variables) scalar(n *node, templates bool) {
	filled, err := v.fill(n.raw)
	if _, open := errors.AsType[unset](err); open && templates {
		n.pattern, n.names, err = v.pattern(n.raw)
		if err == nil {
			n.kind, n.trouble = blank, unset(n.names[0]).Error()
			return
		}
	}
	if err != nil {
		n.trouble = err.Error()
		return
	}
	n.text = filled
	if k := kindOf(filled); n.plain && k != null {
		n.kind = k
	}
}

// fill replaces every reference in s. Its errors name variables and files, never
// their contents.
func (v variables) fill(s string) (string, error) {
	return replace(s, func(literal string) string { return literal }, v.lookup)
}

// pattern replaces what is known in s, and says which names are not.
func (v variables) pattern(s string) (pattern string, names []string, err error) {
	pattern, err = replace(s, quote.Replace, func(inside string) (string, error) {
		value, err := v.lookup(inside)
		if name, open := errors.AsType[unset](err); open {
			names = append(names, string(name))
			return "${" + inside + "}", nil
		}
		return quote.Replace(value), err
	})
	return pattern, names, err
}

// replace puts values in place of the references in s, and passes on what is between.
func replace(s string, literal func(string) string, lookup func(inside string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		if !found {
			b.WriteString(literal(s))
			return b.String(), nil
		}
		if text, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(literal(text + "${"))
			s = rest
			continue
		}
		b.WriteString(literal(before))
		inside, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("${ without its closing brace; write $${ for the characters themselves")
		}
		value, err := lookup(inside)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		s = after
	}
}

// lookup is the value of what stands between the braces.
func (v variables) lookup(inside string) (string, error) {
	name, otherwise, hasDefault := strings.Cut(inside, ":-")
	if strings.Contains(otherwise, "${") {
		return "", fmt.Errorf("the default of ${%s} holds another ${, which cannot be", name)
	}
	var value string
	var err error
	if file, ok := strings.CutPrefix(name, "file:"); ok {
		value, err = v.file(file)
	} else {
		value, err = v.variable(name)
	}
	if err != nil && hasDefault && errors.Is(err, fs.ErrNotExist) {
		return otherwise, nil
	}
	return value, err
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// unset is the error of a variable that is not set, which a for_each may give a value.
type unset string

func (name unset) Error() string {
	return fmt.Sprintf("the environment variable %s is not set; set it, or give it a default as in ${%s:-default}", string(name), string(name))
}
func (name unset) Is(target error) bool { return target == fs.ErrNotExist }

// absent is the error of something else that a default may stand in for.
type absent string

func (a absent) Error() string        { return string(a) }
func (a absent) Is(target error) bool { return target == fs.ErrNotExist }

func (v variables) variable(name string) (string, error) {
	if !variableName.MatchString(name) {
		return "", fmt.Errorf("${%s} is neither ${NAME}, ${NAME:-default} nor ${file:path}; write $${ for the characters themselves", name)
	}
	value, set := v.env(name)
	switch {
	case !set:
		return "", unset(name)
	case value == "":
		return "", absent(fmt.Sprintf("the environment variable %s is set to nothing; set it, or give it a default as in ${%s:-default}", name, name))
	}
	return value, nil
}

// file is the text of a small regular file less one newline at its end: the form in
// which secrets are mounted. Devices and pipes are refused, as reading one may never end.
func (v variables) file(name string) (string, error) {
	full := name
	if !filepath.IsAbs(full) {
		full = filepath.Join(v.dir, full)
	}
	value, err := readRegular(full, name, maxSecret)
	if errors.Is(err, fs.ErrNotExist) {
		return "", absent(fmt.Sprintf("the file %s does not exist; create it, or give a default as in ${file:%s:-default}", name, name))
	}
	return strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r"), err
}

// readRegular is the text of a regular file of at most so many bytes, which errors
// call by name.
func readRegular(path, name string, most int) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", absent(fmt.Sprintf("the file %s does not exist", name))
	case err != nil:
		return "", fmt.Errorf("the file %s cannot be read: %w", name, reason(err))
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the file %s cannot be read: %w", name, reason(err))
	}
	defer f.Close()
	value, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("the file %s cannot be read: %w", name, reason(err))
	case len(value) > most:
		return "", fmt.Errorf("the file %s has more than %d bytes", name, most)
	}
	return string(value), nil
}

// reason is why a file operation failed, without the path that it names again.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
