package outlier

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// TrendingFormats holds the parameters of GET /search/trending-formats, of which
// the interface shows the price alone. They are sent as they are written; the
// answer may be any JSON.
type TrendingFormats struct {
	Params url.Values
}

// Check refuses only what cannot be a parameter.
func (t *TrendingFormats) Check() []FieldError {
	var all []FieldError
	for _, name := range slices.Sorted(maps.Keys(t.Params)) {
		switch {
		case strings.TrimSpace(name) == "":
			all = append(all, FieldError{Code: codePattern, Message: "a parameter has no name"})
		case !utf8.ValidString(name + strings.Join(t.Params[name], "")):
			all = append(all, FieldError{Path: name, Code: codePattern, Message: "is not valid UTF-8"})
		}
	}
	return all
}

// Request makes the request; whether there are pages is not known.
func (t *TrendingFormats) Request() (*Request, error) {
	if wrong := t.Check(); len(wrong) > 0 {
		return nil, invalid(OpTrendingFormats, "", wrong...)
	}
	return PageRequest(OpTrendingFormats, maps.Clone(t.Params)), nil
}
