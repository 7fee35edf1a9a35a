package job

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"outlierd/outlier"
)

// A template is the request of a verb before the values of for_each, the time, and the values from files
// and SQL are known. Its texts are patterns, in which $$ is a dollar sign and ${name} is to be expanded;
// see [fill].
type template struct {
	Op     outlier.Operation
	Params url.Values        // by their names on the wire; values are lists of patterns
	From   map[string]Source // the parameters with values from files or SQL
	Window window            // of publishedAt
	Read   *template         // of a scan: the search that reads its results
	Hits   bool              `json:",omitempty"` // it selects hits of the search, and is not sent

	arrays outlier.Arrays // how lists are sent
	hidden []string       // the patterns with a value from outside the file, which no message shows
}

func newTemplate(c *Config, op outlier.Operation) *template {
	return &template{Op: op, Params: url.Values{}, From: map[string]Source{}, arrays: c.Service.Arrays}
}

// ids is the parameter with the ids of a job of channels or videos. It is never sent as such.
const ids = "id"

// fields returns the parameters of the request that the template is for.
func (t *template) fields() []outlier.Param {
	if t.Hits {
		return outlier.HitParams(t.Op)
	}
	return t.Op.Params()
}

// idColumn returns the column of the published tables that has the ids of the named parameter; "" if it has none.
// People may give an address in place of an id. Handles and videos in place of channels are kept until the job is
// resolved.
func (t *template) idColumn(name string) string {
	switch {
	case name == "videoId", name == "thumbnailVideoId", name == ids && t.Op == outlier.OpDetails:
		return "video_id"
	case name == "channelId", name == "relatedChannelId", name == ids,
		name == "query" && t.Params.Get("findBy") == outlier.FindByChannels:
		return "channel_id"
	}
	return ""
}

// acceptText returns a text in the form in which the named parameter is sent, or the interface's objection to
// it.
func (t *template) acceptText(name, text string) (string, error) {
	switch t.idColumn(name) {
	case "video_id":
		return outlier.ParseVideoID(text)
	case "channel_id":
		return outlier.ParseChannel(text)
	}
	switch at := strings.IndexFunc(text, unicode.IsControl); {
	case at < 0:
	case text[at] == '\n':
		return "", errors.New("contains a line break; write the text in one line, or after >- in place of | or >")
	default:
		return "", fmt.Errorf("contains the control character %q; write a blank in its place", text[at])
	}
	for _, f := range t.fields() {
		if f.Name != name || f.Form != outlier.Text && f.Form != outlier.Texts {
			continue
		}
		if problem := f.CheckText(text); problem != "" {
			return "", errors.New(problem)
		}
		asOne := t.arrays == outlier.ArraysComma && t.Op != outlier.OpStartScan && f.Form == outlier.Texts
		if asOne && strings.Contains(text, ",") {
			return "", fmt.Errorf("has a comma, so that `service.arrays: comma` would send %q as two texts", text)
		}
	}
	return text, nil
}

// sqlColumn returns the SQL column with the values of the named parameter; "" for the first one.
func (t *template) sqlColumn(name string) string {
	if name == "title" {
		return name
	}
	return t.idColumn(name)
}

// asksAnything reports whether params request something specific. A search whose SQL returned nothing would
// otherwise search for everything, and be paid for.
func (t *template) asksAnything(params url.Values) bool {
	has := false // the job has a subject, though it may be empty now
	for _, name := range t.Op.Subjects() {
		_, given := t.From[name]
		has = has || given || t.Params.Has(name)
		if params.Has(name) {
			return true
		}
	}
	return !has
}
