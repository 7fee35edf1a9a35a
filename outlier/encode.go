package outlier

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Arrays is how a parameter that is a list goes into a query string, which the
// interface does not show. This file is the one place that knows.
type Arrays string

// The encodings in use among services. Keys are sorted, elements keep their order.
const (
	ArraysRepeat  Arrays = "repeat"  // query=a&query=b, as services of this shape do; "" means the same
	ArraysBracket Arrays = "bracket" // query[]=a&query[]=b
	ArraysComma   Arrays = "comma"   // query=a,b; an element with a comma, which goes as %2C, is refused by package job
)

// encode writes the query string of r.
func (a Arrays) encode(r *Request) string {
	switch a {
	case ArraysBracket:
		params := url.Values{}
		for name, values := range r.params {
			if r.isList(name) {
				name += "[]"
			}
			params[name] = values
		}
		return params.Encode()
	case ArraysComma:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(r.params)) {
			parts = append(parts, commas(name, r.params[name]))
		}
		return strings.Join(parts, "&")
	}
	return r.params.Encode()
}

func commas(name string, values []string) string {
	var escaped []string
	for _, v := range values {
		escaped = append(escaped, url.QueryEscape(v))
	}
	return url.QueryEscape(name) + "=" + strings.Join(escaped, ",")
}

// isList reports whether a parameter is an array, even if it has one element only.
// Of parameters that are not known only the number of values can tell.
func (r *Request) isList(name string) bool {
	if len(r.params[name]) > 1 {
		return true
	}
	return slices.ContainsFunc(r.op.known(), func(p Param) bool { return p.Form == Texts && p.Name == name })
}

// put places the parameters of r where its method has them: in the query string,
// or in a JSON body. A body comes without GetBody, so that net/http has no way to
// send it again.
func (a Arrays) put(r *Request, on *http.Request) error {
	if on.Method != http.MethodPost {
		on.URL.RawQuery = a.encode(r)
		return nil
	}
	body, err := r.body()
	if err != nil {
		return err
	}
	on.Header.Set("Content-Type", "application/json")
	on.Body, on.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// body writes the parameters of r as one JSON object.
func (r *Request) body() ([]byte, error) {
	members := map[string]any{}
	for name, values := range r.params {
		if r.isList(name) {
			members[name] = values
		} else {
			members[name] = values[0]
		}
	}
	return json.Marshal(members)
}
