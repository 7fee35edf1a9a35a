package schema

import "encoding/binary"

// A service may list the same thing twice in one answer. The first counts, so that each
// key has one row per answer; the journal keeps all.

// listed is a row of the present answer by its key.
type listed struct {
	rows *rows
	key  string
}

// again reports whether the present row's key came before in this answer, and notes the
// key. It is for keys that stand in the JSON.
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

// repeats reports whether the present row, a comment, equals an earlier comment of the same
// video in all but its place. Comments have no id: somebody may say the same words twice,
// but then at another time, or to other likes.
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

// alike compares two rows by what the service says of them.
func (r *rows) alike(i, j int) bool {
	for c, v := range r.vectors {
		says := r.columns[c].Path != "" || r.columns[c].Name == extra.Name
		if says && v.rows > j && !v.equal(i, j) {
			return false
		}
	}
	return true
}
