package job

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Said is how the parameters of a request narrow and order its hits, in the words of the file:
// "z_score 2.. · language en, de" and "z_score desc". The window of publication is not among them.
func Said(params url.Values) (filters, sort string) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		base, from := strings.CutSuffix(name, "From")
		last, to := strings.CutSuffix(name, "To")
		switch {
		case slices.Contains(subjects, name), slices.Contains(ordering, name), base == "publishedAt", last == "publishedAt":
		case from:
			all = append(all, snake(base)+" "+params.Get(name)+".."+params.Get(base+"To"))
		case to && params.Has(last+"From"): // said with it
		case to:
			all = append(all, snake(last)+" .."+params.Get(name))
		default:
			all = append(all, snake(name)+" "+strings.Join(params[name], ", "))
		}
	}
	if by := params.Get("sortBy"); by != "" {
		sort = strings.TrimSpace(snake(by) + " " + params.Get("sortOrder"))
	}
	return strings.Join(all, " · "), sort
}
