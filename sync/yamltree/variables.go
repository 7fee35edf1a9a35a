package yamltree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// maxSecret is the maximum size of a file for ${file:…}, in bytes.
const maxSecret = 64 << 10

// Variables has the values of ${NAME}, ${NAME:-default}, ${file:path}, ${file:path:-default} and ${command: program
// argument}. An empty variable counts as not set, like with a shell's ":-". A default is plain text up to the next
// brace. $${ is a literal ${. A text with variables that are not set may be a [Template], which the caller fills in
// later.
type Variables struct {
	Env func(string) (string, bool) // nil to leave ${…} as it is written
	Dir string                      // the folder to which paths of files are relative

	// Command returns what a program prints that a file names; see [ErrNotRun].
	Command func(file string, words []string) (string, error)

	// Optional has the paths of keys whose value may be missing, with what does not work then. The key is marked as
	// wrong, so that nothing reads it.
	Optional map[string]string

	// Names is the mapping whose sections have the names to which values elsewhere refer; nil to allow any.
	Names *Node
}

// ErrNotRun is the error of a Command that runs nothing now. [Schema.Check] accepts such a value where the schema has
// a secret, and marks it as wrong, so that nothing reads it.
var ErrNotRun = errors.New("${command: …} is allowed only in secrets such as service.key; use a variable or ${file:…}")

// fillKnown returns s of a file as a pattern with the values of the known references, and the names of the others. Its
// errors contain names of variables and files, but never their values.
func (v Variables) fillKnown(file, s string) (pattern string, names []string, err error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		if !found {
			b.WriteString(Escape(s))
			return b.String(), names, nil
		}
		if text, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(Escape(text + "${"))
			s = rest
			continue
		}
		b.WriteString(Escape(before))
		inside, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", nil, errors.New("${ without its closing brace; write $${ for a literal ${")
		}
		value, err := v.lookUp(file, inside)
		if a, is := err.(absence); is && a.name != "" {
			names = append(names, a.name)
			b.WriteString("${" + inside + "}")
		} else if err != nil {
			return "", nil, err
		}
		b.WriteString(Escape(value))
		s = after
	}
}

// lookUp returns the value for the text between the braces, in a file.
func (v Variables) lookUp(of, inside string) (string, error) {
	if line, is := strings.CutPrefix(inside, "command:"); is && !strings.HasPrefix(line, "-") {
		words, err := splitWords(line)
		if err != nil {
			return "", fmt.Errorf("${command:…}: %w", err)
		}
		return v.Command(of, words)
	}
	name, otherwise, hasDefault := strings.Cut(inside, ":-")
	if strings.Contains(otherwise, "${") {
		return "", fmt.Errorf("the default of ${%s} must not contain ${", name)
	}
	var value string
	var err error
	if file, ok := strings.CutPrefix(name, "file:"); ok {
		value, err = v.readSecretFile(file)
	} else {
		value, err = v.readVariable(name)
	}
	if err != nil && hasDefault && errors.Is(err, fs.ErrNotExist) {
		return otherwise, nil
	}
	return value, err
}

// splitWords splits the command line of a program at blanks that are not between quotes, single or double. No other
// character has a meaning, in contrast to a shell.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line + " " {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case r == quote:
			quote = 0
		case quote == 0 && unicode.IsSpace(r):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a quote %c is not closed; a command ends at the first }, so put one with braces into a script", quote)
	case len(words) == 0 || words[0] == "":
		return nil, errors.New("names no program")
	}
	return words, nil
}

// IsName reports whether word can be the name of a variable.
func IsName(word string) bool { return variableName.MatchString(word) }

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// An absence is the error for a value that is missing, so that a default is used.
type absence struct {
	what, remedy, reference string
	name                    string // of a variable that is not set
}

// NotSet returns the error for a variable that is not set.
func NotSet(name string) error {
	return absence{"the environment variable " + name + " is not set", "set it", name, name}
}

func (a absence) Error() string {
	if a.remedy == "" {
		return a.what
	}
	return fmt.Sprintf("%s; %s, or give it a default as in ${%s:-default}", a.what, a.remedy, a.reference)
}

func (a absence) Is(target error) bool { return target == fs.ErrNotExist }

// withoutDefault returns the error without its second remedy: a default would be a secret in clear text.
func withoutDefault(err error) error {
	if a, is := err.(absence); is {
		return errors.New(a.what + "; " + a.remedy)
	}
	return err
}

func (v Variables) readVariable(name string) (string, error) {
	if !IsName(name) {
		return "", fmt.Errorf("${%s} is neither ${NAME}, ${NAME:-default}, ${file:path} nor ${command: program}; "+
			"write $${ for a literal ${", name)
	}
	value, set := v.Env(name)
	switch {
	case !set:
		return "", NotSet(name)
	case value == "":
		return "", absence{what: "the environment variable " + name + " is empty", remedy: "set it", reference: name}
	}
	return value, nil
}

// readSecretFile returns the text of a small regular file without one trailing newline: the form in which secrets
// are mounted.
func (v Variables) readSecretFile(name string) (string, error) {
	full := name
	if !filepath.IsAbs(full) {
		full = filepath.Join(v.Dir, full)
	}
	value, err := ReadFile(full, name, maxSecret)
	if errors.Is(err, fs.ErrNotExist) {
		return "", absence{what: "the file " + name + " does not exist", remedy: "create it", reference: "file:" + name}
	}
	return strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r"), err
}

// ReadFile returns the text of a regular file of at most the given number of bytes. Errors contain name
// in place of its path. Devices and pipes are refused, because reading one may block forever. For a
// missing file the error is an [fs.ErrNotExist].
func ReadFile(path, name string, most int) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", absence{what: "the file " + name + " does not exist"}
	case err != nil:
		return "", fmt.Errorf("the file %s cannot be read: %w", name, withoutPath(err))
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the file %s cannot be read: %w", name, withoutPath(err))
	}
	defer f.Close()
	value, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("the file %s cannot be read: %w", name, withoutPath(err))
	case len(value) > most:
		return "", fmt.Errorf("the file %s has more than %d bytes", name, most)
	}
	return string(value), nil
}

// withoutPath returns why a file operation failed, without the path, which the caller adds.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Escape returns a pattern that stands for exactly this text.
func Escape(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// Fill returns a pattern with its values, which are pairs of name and value. All are filled in at once,
// so that nothing in a value counts as a template.
func Fill(pattern string, values []string) string {
	if !strings.Contains(pattern, "$") {
		return pattern
	}
	pairs := []string{"$$", "$"}
	for i := 0; i+1 < len(values); i += 2 {
		pairs = append(pairs, "${"+values[i]+"}", values[i+1])
	}
	return strings.NewReplacer(pairs...).Replace(pattern)
}
