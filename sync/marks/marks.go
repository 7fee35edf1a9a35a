// Package marks keeps what people think of videos, so that all of them see it, and SQL does: stars,
// hidden videos, tags and notes. It also keeps the saved views of the page, which are names of its
// addresses. It owns the tables marks and views.
package marks

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"outlierd/schema"
	"outlierd/sync/ops"
	"outlierd/sync/store"
)

// Mark is what people have marked a video with.
type Mark struct {
	Video   string    `json:"video_id"`
	Starred bool      `json:"starred"`
	Hidden  bool      `json:"hidden"`
	Tags    []string  `json:"tags"` // sorted, without duplicates
	Note    string    `json:"note,omitempty"`
	Marked  time.Time `json:"marked_at"` // when the mark last changed
}

// Edit is a change of the marks of videos. What is nil or empty stays as it is, so that edits of two
// people add up.
type Edit struct {
	Videos []string  `json:"video_ids"`
	Star   *bool     `json:"star,omitempty"`
	Hide   *bool     `json:"hide,omitempty"`
	Tag    []string  `json:"tag,omitempty"`   // tags to add
	Untag  []string  `json:"untag,omitempty"` // tags to remove
	Tags   *[]string `json:"tags,omitempty"`  // replaces all tags
	Note   *string   `json:"note,omitempty"`  // replaces the note; "" removes it
}

// Limits of what people enter, in characters, and for each video.
const (
	maxVideos = 1000 // of an edit
	maxTags   = 30
	maxTag    = 60
	maxNote   = 5000
)

// InvalidError is the error of an edit or a view that is not accepted, in words for people.
type InvalidError struct{ Why string }

func (e *InvalidError) Error() string { return e.Why }

func refuseEdit(format string, values ...any) error {
	return &InvalidError{fmt.Sprintf(format, values...)}
}

// checkEdit returns an [InvalidError] for an edit that is not accepted, and trims its texts.
func (e *Edit) checkEdit() error {
	switch {
	case len(e.Videos) == 0:
		return refuseEdit("name the videos to mark")
	case len(e.Videos) > maxVideos:
		return refuseEdit("mark at most %d videos at once, got %d", maxVideos, len(e.Videos))
	}
	for _, tags := range []*[]string{&e.Tag, &e.Untag, cmp.Or(e.Tags, new([]string))} {
		trimmed := make([]string, len(*tags))
		for i, tag := range *tags {
			trimmed[i] = strings.TrimSpace(tag)
			if err := checkName("tag", trimmed[i], maxTag); err != nil {
				return err
			}
			if strings.Contains(trimmed[i], ",") {
				return refuseEdit("tag %q: a comma separates tags", trimmed[i])
			}
		}
		*tags = trimmed
	}
	if e.Note == nil {
		return nil
	}
	note := strings.TrimSpace(strings.ReplaceAll(*e.Note, "\r\n", "\n"))
	e.Note = &note
	strange := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	switch {
	case !utf8.ValidString(note) || strings.ContainsFunc(note, strange):
		return refuseEdit("the note is not plain text")
	case utf8.RuneCountInString(note) > maxNote:
		return refuseEdit("a note has at most %d characters", maxNote)
	}
	return nil
}

// checkName returns an [InvalidError] unless text can name a thing of that kind.
func checkName(kind, text string, most int) error {
	switch {
	case text == "":
		return refuseEdit("a %s needs a name", kind)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return refuseEdit("%s %q is not plain text", kind, text)
	case utf8.RuneCountInString(text) > most:
		return refuseEdit("a %s has at most %d characters", kind, most)
	}
	return nil
}

// applyTo returns the mark as it is after the edit.
func (e *Edit) applyTo(m Mark) (Mark, error) {
	if e.Star != nil {
		m.Starred = *e.Star
	}
	if e.Hide != nil {
		m.Hidden = *e.Hide
	}
	if e.Note != nil {
		m.Note = *e.Note
	}
	tags := append(append([]string{}, *cmp.Or(e.Tags, &m.Tags)...), e.Tag...) // never nil, which JSON has as null
	slices.Sort(tags)
	m.Tags = slices.DeleteFunc(slices.Compact(tags), func(tag string) bool { return slices.Contains(e.Untag, tag) })
	if len(m.Tags) > maxTags {
		return m, refuseEdit("a video has at most %d tags", maxTags)
	}
	return m, nil
}

// saySame reports whether two marks say the same.
func saySame(a, b *Mark) bool {
	return a.Starred == b.Starred && a.Hidden == b.Hidden && a.Note == b.Note && slices.Equal(a.Tags, b.Tags)
}

// Apply makes an edit, and returns the marks of its videos as they are now, in the same order. An edit
// that changes nothing writes nothing. It fails with an [InvalidError] if the edit is not accepted. The
// caller has checked that the videos have ids that were not forgotten.
func Apply(tx *store.Tx, e Edit) ([]Mark, error) {
	if err := e.checkEdit(); err != nil {
		return nil, err
	}
	before, err := Of(tx, e.Videos)
	if err != nil {
		return nil, err
	}
	marks := make([]Mark, 0, len(e.Videos))
	for _, video := range e.Videos {
		was := before[video]
		was.Video = video
		m, err := e.applyTo(was)
		if err != nil {
			return nil, err
		}
		if !saySame(&was, &m) {
			m.Marked = store.Instant(store.Micros(tx.Now()))
			if err := putMark(tx, &m); err != nil {
				return nil, err
			}
		}
		before[video], marks = m, append(marks, m)
	}
	return marks, nil
}

func putMark(tx *store.Tx, m *Mark) error {
	return store.Insert(tx, "marks", m.columns(), `ON CONFLICT (video) DO UPDATE SET starred = excluded.starred,
		hidden = excluded.hidden, tags = excluded.tags, note = excluded.note, marked = excluded.marked`)
}

func (m *Mark) columns() store.Columns {
	return store.Columns{"video": &m.Video, "starred": &m.Starred, "hidden": &m.Hidden, "tags": store.JSON(&m.Tags),
		"note": &m.Note, "marked": store.Time(&m.Marked)}
}

// Of returns the marks of those of the videos that were ever marked.
func Of(tx *store.Tx, videos []string) (map[string]Mark, error) {
	some, err := store.Select(tx, (*Mark).columns, `FROM marks WHERE video IN (SELECT value FROM json_each(?))`, store.JSON(videos))
	marks := make(map[string]Mark, len(some))
	for _, m := range some {
		marks[m.Video] = m
	}
	return marks, err
}

// List returns the marks that say something, the last changed first.
func List(in store.Reader) ([]Mark, error) {
	return store.Select(in, (*Mark).columns,
		`FROM marks WHERE starred OR hidden OR tags <> '[]' OR note <> '' ORDER BY marked DESC, id DESC`)
}

// Forget erases the marks of videos, given by their ids or those of their channels, and the ids from all
// texts.
func Forget(tx *store.Tx, ids [][]byte) (err error) {
	for _, id := range ids { // two views may become one
		err = errors.Join(err, tx.Exec(`UPDATE marks SET video = NULL, starred = 0, hidden = 0, tags = '[]', note = '',
			marked = ? WHERE video = ?`, store.Micros(tx.Now()), string(id)),
			tx.Exec(`DELETE FROM views WHERE instr(name, ?1) > 0 OR instr(address, ?1) > 0`, string(id)))
	}
	return errors.Join(err, store.Erase(tx, "marks", ids, "tags", "note"))
}

// Ops is the operations table of marks.
var Ops = []ops.Table{{
	Table: schema.OpsMarks, Source: "marks", From: `marks`,
	SQL: map[string]string{"video_id": `video`, "marked_at": `marked`},
}}

// View is an address of the page that a person has saved under a name.
type View struct {
	Name    string    `json:"name"`
	Address string    `json:"address"` // path and query on the page: "/?topic=coffee&min=10"
	Saved   time.Time `json:"saved_at"`
}

// Limits of saved views.
const (
	maxViews   = 200
	maxName    = 60
	maxAddress = 2000
)

// checkView returns an [InvalidError] for a view that is not accepted, and trims its name. An address stays on
// the page: a link to another host would be a trap.
func (v *View) checkView() error {
	v.Name = strings.TrimSpace(v.Name)
	if err := checkName("view", v.Name, maxName); err != nil {
		return err
	}
	a := v.Address
	strange := func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == ' ' }
	if len(a) > maxAddress || !strings.HasPrefix(a, "/") || strings.HasPrefix(a, "//") ||
		!utf8.ValidString(a) || strings.ContainsFunc(a, strange) {
		return refuseEdit("the address of view %q must be a path on the page, such as /?min=10, "+
			"of at most %d characters", v.Name, maxAddress)
	}
	return nil
}

// SaveView saves a view. A view of that name gets the new address.
func SaveView(tx *store.Tx, v View) error {
	if err := v.checkView(); err != nil {
		return err
	}
	others, err := store.Value[int](tx, `SELECT count(*) FROM views WHERE name <> ?`, v.Name)
	if err == nil && others >= maxViews {
		return refuseEdit("%d views are saved, which is the maximum: delete one first", others)
	}
	if v.Saved = tx.Now(); err == nil {
		err = store.Insert(tx, "views", v.columns(), `ON CONFLICT (name) DO UPDATE
			SET address = excluded.address, saved = excluded.saved`)
	}
	return err
}

// RenameView gives a view another name. Renaming a view to its own name does nothing.
func RenameView(tx *store.Tx, old, new string) error {
	new = strings.TrimSpace(new)
	if err := checkName("view", new, maxName); err != nil {
		return err
	}
	if new == old {
		return nil
	}
	taken, err := store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM views WHERE name = ?)`, new)
	if err != nil {
		return err
	}
	if taken {
		return refuseEdit("there is a view %q already", new)
	}
	return changeView(tx, old, `UPDATE views SET name = ?2 WHERE name = ?1`, old, new)
}

// DeleteView deletes a view.
func DeleteView(tx *store.Tx, name string) error {
	return changeView(tx, name, `DELETE FROM views WHERE name = ?1`, name)
}

// changeView performs a statement that must change the view of that name.
func changeView(tx *store.Tx, name, statement string, values ...any) error {
	rows, err := tx.Change(statement, values...)
	if err == nil && rows == 0 {
		err = refuseEdit("there is no view %q", name)
	}
	return err
}

// Views returns the saved views, in the order in which they were first saved.
func Views(in store.Reader) ([]View, error) {
	return store.Select(in, (*View).columns, `FROM views ORDER BY id`)
}

func (v *View) columns() store.Columns {
	return store.Columns{"name": &v.Name, "address": &v.Address, "saved": store.Time(&v.Saved)}
}
