package schema

import "encoding/binary"

// The service may list the same item twice in one answer. Only the first becomes a row, so that each
// key has one row per answer; the journal keeps all.

// listed is the key of a row of the current answer.
type listed struct {
	rows *rows
	key  string
}

// again reports whether an earlier row of this answer has the current row's key, and records the
// key. It is for keys whose values are in the JSON.
func (d *Decoder) again(r *record) bool {
	if len(r.needs) == 0 {
		return false
	}
	key := make([]byte, 0, 64)
	for _, n := range r.needs {
		key = binary.AppendUvarint(key, uint64(len(n.to.last())))
		key = append(key, n.to.last()...)
	}
	one := listed{r.rows, string(key)}
	if d.keys[one] {
		return true
	}
	d.keys[one] = true
	return false
}

// repeats reports whether the current row, a comment, equals an earlier comment of the same video
// in everything except its place. Comments have no id: an author may write the same text twice, but
// then the times or the likes differ.
func (r *record) repeats() bool {
	if r.content == (commentHash{}) {
		return false
	}
	for _, earlier := range r.same[r.content] {
		if r.rows.alike(earlier, r.rows.n-1) {
			return true
		}
	}
	r.same[r.content] = append(r.same[r.content], r.rows.n-1)
	return false
}

// alike reports whether two rows are equal in the columns that the service provides.
func (r *rows) alike(i, j int) bool {
	for c, v := range r.vectors {
		says := r.columns[c].Path != "" || r.columns[c].Name == extra.Name
		if says && v.rows > j && !v.equal(i, j) {
			return false
		}
	}
	return true
}
