package simulator

import (
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// order is the body of POST /scan.
type order struct {
	query    []string
	channels bool // query holds the ids of channels
	mode     *scanMode
}

// params are the order as query parameters, which identify a request.
func (o *order) params() url.Values {
	p := url.Values{"query": o.query, "findBy": {"query"}, "mode": {o.mode.name}}
	if o.channels {
		p.Set("findBy", "channels")
	}
	return p
}

// readOrder reads an order and returns everything that is wrong with it.
func readOrder(r *http.Request) (*order, []complaint) {
	fields, c := readObject(r)
	if c != nil {
		c.Path = []string{}
		return nil, []complaint{*c}
	}
	f := form{fields: fields}
	o := &order{mode: fast, channels: f.readChoice("findBy", "query", "channels") == "channels"}
	if f.readChoice("mode", fast.name, standard.name) == standard.name {
		o.mode = standard
	}
	element := anyText
	if o.channels {
		element = channelIDForm
	}
	o.query = f.readTexts("query", element)
	f.refuseOthers("findBy", "query", "mode")
	return o, f.wrong
}

// maxBody is the longest body that the service reads.
const maxBody = 1 << 20

// readObject reads a body that must be one JSON object.
func readObject(r *http.Request) (map[string]any, *complaint) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, newComplaint("invalid_type", "json", "Expected a body of type application/json")
	}
	if r.Body == nil {
		return nil, newComplaint("invalid_type", "json", "Expected a body")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		return nil, newComplaint("too_big", "json", "Expected a body of at most %d bytes", maxBody)
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, newComplaint("invalid_type", "json", "Expected a JSON object")
	}
	return fields, nil
}

// form is a JSON object that is checked field by field.
type form struct {
	fields map[string]any
	wrong  []complaint
}

func (f *form) addComplaint(c *complaint, path ...string) {
	c.Path = path
	f.wrong = append(f.wrong, *c)
}

// readChoice reads an optional text; the default is the first one allowed.
func (f *form) readChoice(name string, allowed ...string) string {
	value, given := f.fields[name]
	if !given {
		return allowed[0]
	}
	text, ok := value.(string)
	if !ok {
		f.addComplaint(newComplaint("invalid_type", "string", "Expected a string"), name)
	} else if wrong := oneOf(allowed...)(text); wrong != nil {
		f.addComplaint(wrong, name)
	}
	return text
}

// readTexts reads a list of at least one text.
func (f *form) readTexts(name string, element check) []string {
	values, ok := f.fields[name].([]any)
	switch {
	case !ok:
		f.addComplaint(newComplaint("invalid_type", "array", "Expected an array of strings"), name)
	case len(values) == 0:
		f.addComplaint(newComplaint("too_small", "min", "Expected at least one element"), name)
	}
	texts := make([]string, len(values))
	for i, value := range values {
		text, ok := value.(string)
		if !ok {
			f.addComplaint(newComplaint("invalid_type", "string", "Expected a string"), name, strconv.Itoa(i))
		} else if wrong := element(text); wrong != nil {
			f.addComplaint(wrong, name, strconv.Itoa(i))
		}
		texts[i] = text
	}
	return texts
}

// refuseOthers refuses all other fields.
func (f *form) refuseOthers(names ...string) {
	for _, name := range slices.Sorted(maps.Keys(f.fields)) {
		if !slices.Contains(names, name) {
			f.addComplaint(newComplaint("unrecognized_keys", "strict", "Unrecognized key"), name)
		}
	}
}
