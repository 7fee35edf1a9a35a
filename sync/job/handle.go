package job

import (
	"fmt"
	"slices"
	"strings"
)

// isHandle reports whether the text for a channel is its handle, and not its id.
func isHandle(text string) bool { return strings.HasPrefix(text, "@") }

// UnknownHandlesError says of which channels a job names by handle the tables do not have
// the id.
type UnknownHandlesError struct{ Handles []string }

func (e *UnknownHandlesError) Error() string {
	first := e.Handles[0]
	what := first + " is"
	if len(e.Handles) > 1 {
		what = strings.Join(e.Handles, ", ") + " are"
	}
	return fmt.Sprintf("%s in none of the published tables, so the channel id is not known; "+
		"find it with `outlierd find-channels %s`, or write the id of 24 characters",
		what, strings.TrimPrefix(first, "@"))
}

// channels puts the ids of channels in the place of their handles. A handle that the tables
// show for several channels means the one that had it last.
func (r *resolver) channels(texts []string) ([]string, error) {
	var handles []string
	for _, text := range texts {
		if isHandle(text) && r.handles[text] == "" {
			handles = append(handles, text)
		}
	}
	if len(handles) > 0 {
		if err := r.lookUp(handles); err != nil {
			return nil, err
		}
	}
	texts = slices.Clone(texts)
	for i, text := range texts {
		if isHandle(text) {
			texts[i] = r.handles[text]
		}
	}
	return texts, nil
}

// lookUp finds the ids of channels in the user's tables.
func (r *resolver) lookUp(handles []string) error {
	var quoted []string
	for _, handle := range handles {
		quoted = append(quoted, "'"+strings.ReplaceAll(handle, "'", "''")+"'")
	}
	pairs, err := r.in.IDs(fmt.Sprintf(handleSQL, strings.Join(quoted, ", ")), "channel_id")
	if err != nil {
		return fmt.Errorf("look for %s in the tables: %w", strings.Join(handles, ", "), err)
	}
	for _, pair := range pairs {
		handle, id, _ := strings.Cut(pair, " ")
		r.handles[handle] = id
	}
	unknown := slices.DeleteFunc(handles, func(handle string) bool { return r.handles[handle] != "" })
	if len(unknown) > 0 {
		return &UnknownHandlesError{uniq(unknown)}
	}
	return nil
}

// handleSQL gives handles with ids, as "@name UC…", from every table that shows both.
const handleSQL = `select handle || ' ' || channel_id as channel_id from (
	select '@' || ltrim(lower(channel_handle), '@') as handle, channel_id, last_seen_at from outliers
	union all select '@' || ltrim(lower(handle), '@'), channel_id, last_seen_at from channels
	union all select '@' || ltrim(lower(handle), '@'), channel_id, last_seen_at from found_channels)
where handle in (%s) and channel_id is not null
qualify row_number() over (partition by handle order by last_seen_at desc, channel_id) = 1`
