package job

import (
	"bytes"
	_ "embed"
	"fmt"
	"iter"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"outlierd/outlier"
	"outlierd/outlier/pace"
	"outlierd/sync/yamltree"
)

// # The table of keys
//
// jobs.schema.json is the table of all keys: for each its type, bounds, words and documentation, and in keywords of its
// own the form of a text (x-form), the section whose names it has (x-names), whether for_each may fill it in
// (x-filled), whether it is a secret (writeOnly), and what a change means to a running daemon (x-change). The tag `key`
// of a field says which key it has: "per_day" in a Budget, "privacy.comment_authors" in a Config. What a key means
// beyond its form, such as that reserve is less than per_month, is checked by the code of its section.

// forms parse texts by their x-form. Their errors may quote the text. What a text means is the value of its node, which
// readKeys stores and valueOf returns.
var forms = yamltree.Forms{
	"duration":  formOf(ParseDuration),
	"time zone": formOf(parseZone),
	"limit":     formOf(parseLimit),
	"share":     formOf(parseShare),
	"percent":   formOf(parsePercent),
	"day":       formOf(parseRenewal),
	"age":       formOf(parseRetention),
	"size":      formOf(ParseSize),
	"schedule":  formOf(parseCron),
	"due":       formOf(parseDue),
	"poll":      formOf(parsePoll),
	"pages":     formOf(parsePages),
	"sort":      formOf(parseSort),
	"listener":  formOf(parseListener),
	"proxy":     formOf(parseProxy),
	"server":    formOf(parseServer),
	"mailbox":   formOf(parseMailbox),
	"recipient": formOf(parseRecipient),
	"key":       secretOf(outlier.NewKey),
	"token":     secretOf(parseToken),
	"password":  secretOf(func(text string) (Secret, error) { return Secret{&text}, nil }),
}

func formOf[T any](parse func(string) (T, error)) func(*yamltree.Schema, *yamltree.Node) any {
	return func(_ *yamltree.Schema, n *yamltree.Node) any {
		value, err := parse(n.Text)
		if err != nil {
			n.RefuseQuoting(err.Error())
			return nil
		}
		return value
	}
}

// secretOf is [formOf] for secrets that a file must not have in clear text: written in it, one would end up in backups,
// in version control and on screens. An empty one has no value.
func secretOf[T any](parse func(string) (T, error)) func(*yamltree.Schema, *yamltree.Node) any {
	return func(s *yamltree.Schema, n *yamltree.Node) any {
		what := strings.ReplaceAll(n.Key.Text, "_", " ")
		switch {
		case defaulted().MatchString(n.Raw):
			n.RefuseWithHint("leave it out, as in "+s.Suggestions(), "the default after :- is a %s in clear text", what)
		case n.Raw != "" && !reference().MatchString(n.Raw):
			n.RefuseWithHint("take it from a variable or a file: "+s.Suggestions(), "the %s is written in clear text", what)
		case n.Text != "":
			return formOf(parse)(s, n)
		}
		return nil
	}
}

// valueOf returns what a value means by its form in the table of keys, or the zero value if it is missing or was
// refused.
func valueOf[T any](n *yamltree.Node) (value T) {
	if n != nil && !n.Wrong {
		value, _ = n.Value.(T)
	}
	return value
}

// readKeys stores the values of a mapping in the tagged fields of a struct. If a key is missing or was refused, its
// field has the default of the table. Fields of other types are left to the caller.
func readKeys(to any, s *yamltree.Schema, n *yamltree.Node) {
	for k := range taggedFields(reflect.ValueOf(to).Elem(), s, n) {
		k.store()
	}
}

// A taggedField is a field with its key, and the value of the key in the file; nil if it is not there.
type taggedField struct {
	name  string
	field reflect.Value
	key   *yamltree.Schema
	node  *yamltree.Node
}

// taggedFields returns the fields of a struct that have the tag `key`, and those of structs in them.
func taggedFields(of reflect.Value, s *yamltree.Schema, n *yamltree.Node) iter.Seq[taggedField] {
	return func(yield func(taggedField) bool) {
		for field, value := range of.Fields() {
			name, tagged := field.Tag.Lookup("key")
			if !tagged {
				continue
			}
			part, at := s, n
			for key := range strings.SplitSeq(name, ".") {
				part, at = part.Get(key), at.Get(key)
			}
			if part == nil {
				panic("job: no key " + name + " for " + of.Type().Name() + "." + field.Name)
			}
			if !yield(taggedField{name, value, part, at}) {
				return
			}
			if value.Kind() != reflect.Struct {
				continue
			}
			for inner := range taggedFields(value, part, at) {
				inner.name = name + "." + inner.name
				if !yield(inner) {
					return
				}
			}
		}
	}
}

// store stores the value of the key in the field.
func (k taggedField) store() {
	value := reflect.ValueOf(k.key.DefaultValue())
	if given := valueOf[any](k.node); given != nil {
		value = reflect.ValueOf(given)
	}
	switch texts, isList := k.field.Addr().Interface().(*[]string); {
	case isList:
		for _, member := range k.node.Members() {
			if text := member.TextOr(""); text != "" {
				*texts = append(*texts, text)
			}
		}
	case !value.IsValid():
	case value.CanConvert(k.field.Type()):
		k.field.Set(value.Convert(k.field.Type()))
	case k.field.Kind() == reflect.Pointer && value.CanConvert(k.field.Type().Elem()):
		k.field.Set(reflect.New(k.field.Type().Elem()))
		k.field.Elem().Set(value.Convert(k.field.Type().Elem()))
	}
}

// What a change of a key means to a running daemon: its x-change. The changes of other keys take effect at once.
const (
	// ChangeRefused has what determines what the process has opened, whose credits it spends, and its periods. A file
	// that changes it is refused as a whole, because half of it would match neither file.
	ChangeRefused = "refused"
	// ChangeAtRestart has what is read at the start. The rest of an edited file is used without it.
	ChangeAtRestart = "at restart"
)

// Changed returns the keys that differ from those of an earlier state of the file, of those whose change means the same
// to a running daemon.
func (c *Config) Changed(earlier *Config, change string) (names []string) {
	was := map[string]any{}
	for k := range taggedFields(reflect.ValueOf(earlier).Elem(), schema(), nil) {
		was[k.name] = k.field.Interface()
	}
	for k := range taggedFields(reflect.ValueOf(c).Elem(), schema(), nil) {
		if k.key.Change == change && !isEqual(was[k.name], k.field.Interface()) {
			names = append(names, k.name)
		}
	}
	return names
}

// isEqual compares values of a field. Time zones are equal if their names are: what they have computed may differ.
func isEqual(a, b any) bool {
	if zone, isZone := a.(*time.Location); isZone {
		return zone.String() == b.(*time.Location).String()
	}
	return reflect.DeepEqual(a, b)
}

func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("%q is not a time zone; use a name such as Europe/Berlin", name)
	}
	return zone, nil
}

func parseLimit(text string) (pace.Quota, error) {
	limit, err := pace.ParseQuota(text)
	if err != nil {
		return limit, fmt.Errorf("must be a limit such as 10/min, 30/10s or 100/h, got %q", text)
	}
	return limit, nil
}

func parseShare(text string) (float64, error) {
	x, err := parseNumber(text)
	if err != nil || x <= 0 || x > 1 {
		return 0, fmt.Errorf("must be a share above 0 and at most 1, such as 0.5, got %s", text)
	}
	return x, nil
}

// parseRenewal parses "on day 14".
func parseRenewal(text string) (int, error) {
	return strconv.Atoi(strings.TrimPrefix(text, "on day ")) // 1 to 31, checked by the schema
}

// parseListener parses HOST:PORT; "" is no address.
func parseListener(text string) (string, error) {
	_, number, err := net.SplitHostPort(text)
	if port, _ := strconv.Atoi(number); text != "" && (err != nil || port < 1 || port > 65535) {
		return "", fmt.Errorf("must be HOST:PORT with a port from 1 to 65535, such as 127.0.0.1:7411, got %q", text)
	}
	return text, nil
}

// parseProxy parses the address of a proxy; "" means no proxy. The error does not quote it, since it may have a
// password.
func parseProxy(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, nil
	case err != nil || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) || u.Hostname() == "" ||
		u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "":
		return nil, fmt.Errorf("must be the address of a proxy without a password, such as http://proxy.example:3128")
	}
	return u, nil
}

//go:generate go test . -run TestSchemaListsTableFilters|TestManualHasTheTablesOfKeys -update

// Schema returns the JSON Schema (draft-07) of jobs.yaml with a description of every key: the reference of
// the file, for editors and for people.
func Schema() []byte { return bytes.Clone(schemaText) }

// Example returns a small jobs.yaml with comments. It has no mistakes and runs on the simulator.
func Example() []byte { return bytes.Clone(exampleText) }

//go:embed jobs.schema.json
var schemaText []byte

//go:embed example.yaml
var exampleText []byte

// schema is parsed when the first file is read.
var schema = sync.OnceValue(func() *yamltree.Schema { return yamltree.MustParseSchema(schemaText, forms) })

// oneOff is the part of the schema for a one-off job.
func oneOff() *yamltree.Schema { return schema().Definitions["job"] }
