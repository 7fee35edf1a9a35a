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

// Arrays is the encoding of a list parameter in a query string. The interface does not specify it; only
// this file depends on it.
type Arrays string

// Common encodings. Keys are sorted, elements keep their order.
const (
	ArraysRepeat  Arrays = "repeat"  // query=a&query=b, common in similar services; "" means the same
	ArraysBracket Arrays = "bracket" // query[]=a&query[]=b
	ArraysComma   Arrays = "comma"   // query=a,b; package job refuses elements with a comma, which would be sent as %2C
)

// encodeQuery returns the query string of r.
func (a Arrays) encodeQuery(r *Request) string {
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
			parts = append(parts, joinCommas(name, r.params[name]))
		}
		return strings.Join(parts, "&")
	}
	return r.params.Encode()
}

func joinCommas(name string, values []string) string {
	var escaped []string
	for _, v := range values {
		escaped = append(escaped, url.QueryEscape(v))
	}
	return url.QueryEscape(name) + "=" + strings.Join(escaped, ",")
}

// isList reports whether a parameter is an array, even with one element. For an unknown parameter it
// depends on the number of values.
func (r *Request) isList(name string) bool {
	if len(r.params[name]) > 1 {
		return true
	}
	return slices.ContainsFunc(r.op.allParams(), func(p Param) bool { return p.Form == Texts && p.Name == name })
}

// putParams adds the parameters of r to the query string, or to a JSON body, depending on the method. The body
// has no GetBody, so net/http cannot send it again.
func (a Arrays) putParams(r *Request, on *http.Request) error {
	if on.Method != http.MethodPost {
		on.URL.RawQuery = a.encodeQuery(r)
		return nil
	}
	body, err := r.encodeBody()
	if err != nil {
		return err
	}
	on.Header.Set("Content-Type", "application/json")
	on.Body, on.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// encodeBody returns the parameters of r as one JSON object.
func (r *Request) encodeBody() ([]byte, error) {
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
