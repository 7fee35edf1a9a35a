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

// tree fills in every value below n. What cannot be filled in is noted in its
// node, and reported once it is known that somebody wants to read it.
func (v variables) tree(n *node) {
	switch {
	case n == nil:
	case n.kind == mapping:
		for _, e := range n.entries {
			v.tree(e.value)
		}
	case n.kind == list:
		for _, item := range n.items {
			v.tree(item)
		}
	case strings.Contains(n.raw, "${"):
		v.scalar(n)
	}
}

func (v variables) scalar(n *node) {
	filled, err := v.fill(n.raw)
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
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		if !found {
			b.WriteString(s)
			return b.String(), nil
		}
		if literal, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(literal + "${")
			s = rest
			continue
		}
		b.WriteString(before)
		inside, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("${ without its closing brace; write $${ for the characters themselves")
		}
		value, err := v.lookup(inside)
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

// absent is the error of something that a default may stand in for.
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
		return "", absent(fmt.Sprintf("the environment variable %s is not set; set it, or give it a default as in ${%s:-default}", name, name))
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
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", absent(fmt.Sprintf("the file %s does not exist; create it, or give a default as in ${file:%s:-default}", name, name))
	case err != nil:
		return "", fmt.Errorf("the file %s cannot be read: %w", name, reason(err))
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(full)
	if err != nil {
		return "", fmt.Errorf("the file %s cannot be read: %w", name, reason(err))
	}
	defer f.Close()
	value, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("the file %s cannot be read: %w", name, reason(err))
	case len(value) > maxSecret:
		return "", fmt.Errorf("the file %s has more than %d bytes", name, maxSecret)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(value), "\n"), "\r"), nil
}

// reason is why a file operation failed, without the path that it names again.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
