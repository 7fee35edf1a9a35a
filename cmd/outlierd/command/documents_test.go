package command

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/report"
	"outlierd/sync/engine"
	"outlierd/sync/forecast"
	"outlierd/sync/queue"
	"outlierd/sync/runs"
	"outlierd/sync/store"
)

// TestManualHasTheDocuments: docs/commands.md lists the members of what each command prints with -o json. -update
// writes the list.
func TestManualHasTheDocuments(t *testing.T) {
	t.Parallel()
	const page = "../../../docs/commands.md"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile("(?s)(<!-- documents -->\n).*?(<!-- / -->)")
	if !place.Match(old) {
		t.Fatalf("%s has no place for the documents", page)
	}
	list := strings.ReplaceAll(listDocuments(), "$", "$$")
	got := place.ReplaceAllString(string(old), "${1}"+list+"${2}")
	switch {
	case got == string(old):
	case *update:
		err = os.WriteFile(page, []byte(got), 0o644)
	default:
		err = fmt.Errorf("%s is out of date; -update writes it", page)
	}
	if err != nil {
		t.Error(err)
	}
}

// listDocuments returns the tables of the documents, by command, and of the types of their members.
func listDocuments() string {
	uses := map[reflect.Type]int{}
	for _, d := range documents {
		of, _ := valueOf(d.zero)
		uses[of]++
	}
	s := shapes{described: map[string]reflect.Type{}}
	text := "| Command | Document |\n|---|---|\n"
	inOrder := slices.SortedFunc(slices.Values(documents), func(a, b documented) int { return cmp.Compare(a.commands, b.commands) })
	for _, d := range inOrder {
		shape := ""
		of, isList := valueOf(d.zero)
		if uses[of] == 1 && of.Kind() == reflect.Struct {
			shape = s.members(of)
		} else {
			shape = s.shapeOf(of)
		}
		if isList {
			shape = "[" + shape + "]"
		}
		text += fmt.Sprintf("| `%s` | `%s` |\n", strings.ReplaceAll(d.commands, ", ", "`, `"), shape)
	}
	var types []string
	for len(s.next) > 0 {
		of := s.next[0]
		s.next = s.next[1:]
		types = append(types, fmt.Sprintf("| `%s` | `%s` |\n", nameOf(of), s.members(of)))
	}
	slices.Sort(types)
	return text + "\n| Type | Members |\n|---|---|\n" + strings.Join(types, "")
}

// valueOf returns the type of a value, or of the members of a list.
func valueOf(v any) (of reflect.Type, isList bool) {
	of = reflect.TypeOf(v)
	if isList = of.Kind() == reflect.Slice; isList {
		of = of.Elem()
	}
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of, isList
}

// nameOf returns the name of a type in the manual.
func nameOf(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[report.Run]():
		return "RunDetails"
	case reflect.TypeFor[forecast.Search]():
		return "PlannedSearch"
	case reflect.TypeFor[runs.Imported]():
		return "ImportedVideo"
	case reflect.TypeFor[queue.Waiting]():
		return "QueuedCall"
	}
	return strings.ToUpper(of.Name()[:1]) + of.Name()[1:]
}

// shapes describes JSON by the types that it is written from.
type shapes struct {
	described map[string]reflect.Type // by name
	next      []reflect.Type          // named, and not described yet
}

// shapeOf describes the values of a type, a struct by its name. Text is not named in the members of a struct.
func (s *shapes) shapeOf(of reflect.Type) string {
	switch of {
	case reflect.TypeFor[time.Time]():
		return "time"
	case reflect.TypeFor[store.Seconds]():
		return "number"
	case reflect.TypeFor[engine.Ending]():
		return "{…}" // the keys of its log line
	}
	switch {
	case of.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "text"
	case of.Implements(reflect.TypeFor[json.Marshaler]()):
		panic(fmt.Sprintf("how %s is written is not known here", of))
	}
	switch of.Kind() {
	case reflect.Pointer:
		return s.shapeOf(of.Elem()) + " or null"
	case reflect.Slice:
		return "[" + s.shapeOf(of.Elem()) + "]"
	case reflect.Map:
		return "{" + s.shapeOf(of.Key()) + ": " + s.shapeOf(of.Elem()) + "}"
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "bool"
	case reflect.Struct:
		switch s.described[nameOf(of)] {
		case nil:
			s.described[nameOf(of)] = of
			s.next = append(s.next, of)
		case of:
		default:
			panic(fmt.Sprintf("%s and %s have the same name", of, s.described[nameOf(of)]))
		}
		return nameOf(of)
	}
	return "number"
}

// members describes the members of a struct. As in encoding/json, one of an embedded struct is hidden by one of the
// same name outside.
func (s *shapes) members(of reflect.Type) string {
	texts, depths := map[string]string{}, map[string]int{}
	var names []string
	var add func(of reflect.Type, depth int)
	add = func(of reflect.Type, depth int) {
		for f := range of.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported():
				continue
			case f.Anonymous && name == "":
				add(f.Type, depth+1)
				continue
			}
			name = cmp.Or(name, f.Name)
			if _, is := texts[name]; !is {
				names = append(names, name)
			} else if depths[name] < depth {
				continue
			}
			shape := s.shapeOf(f.Type)
			if strings.HasPrefix(options, "omit") {
				name, shape = name+"?", strings.TrimSuffix(shape, " or null")
			}
			if shape = ": " + shape; shape == ": text" {
				shape = ""
			}
			texts[strings.TrimSuffix(name, "?")], depths[strings.TrimSuffix(name, "?")] = name+shape, depth
		}
	}
	add(of, 0)
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = texts[name]
	}
	return "{" + strings.Join(all, ", ") + "}"
}
