package outlier

import (
	"bytes"

	"github.com/go-faster/jx"
)

// authorOwner is the one member about the author of a comment that does not identify an author.
const authorOwner = "authorIsChannelOwner"

// hideAuthors takes out of an answer with comments who wrote them: of all members whose names begin
// with "author" (interface, Video comments) only the id is kept, as what pseudonym makes of it; ""
// is null, as are the others. Such a body is kept without its encoding from here on. One that is not
// JSON, or was cut short, stays as it came.
func (a *Answer) hideAuthors(pseudonym func(id string) string) {
	if pseudonym == nil || a.Request.op != OpComments {
		return
	}
	body, err := a.JSON()
	if err != nil || !jx.Valid(body) {
		return
	}
	var w jx.Writer
	if err := withoutAuthors(&w, jx.DecodeBytes(body), pseudonym); err == nil {
		a.Body, a.Encoding, a.opened = w.Buf, "", nil
	}
}

func withoutAuthors(w *jx.Writer, d *jx.Decoder, pseudonym func(string) string) error {
	first := true
	comma := func() {
		if !first {
			w.Comma()
		}
		first = false
	}
	switch d.Next() {
	case jx.Array:
		w.ArrStart()
		err := d.Arr(func(d *jx.Decoder) error {
			comma()
			return withoutAuthors(w, d, pseudonym)
		})
		w.ArrEnd()
		return err
	case jx.Object:
		w.ObjStart()
		err := d.ObjBytes(func(d *jx.Decoder, name []byte) error {
			comma()
			w.FieldStart(string(name))
			if !bytes.HasPrefix(name, []byte("author")) || string(name) == authorOwner {
				return withoutAuthors(w, d, pseudonym)
			}
			id := ""
			if string(name) == "authorChannelId" && d.Next() == jx.String {
				var err error
				if id, err = d.Str(); err != nil {
					return err
				}
			} else if err := d.Skip(); err != nil {
				return err
			}
			if id != "" {
				id = pseudonym(id)
			}
			if id == "" {
				w.Null()
			} else {
				w.Str(id)
			}
			return nil
		})
		w.ObjEnd()
		return err
	}
	raw, err := d.Raw()
	w.Raw(raw)
	return err
}
