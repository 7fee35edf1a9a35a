package outlier

import (
	"bytes"

	"github.com/go-faster/jx"
)

// authorOwner is the only author member of a comment that does not identify the author.
const authorOwner = "authorIsChannelOwner"

// hideAuthors removes the authors of comments from an answer: of all members whose names begin with
// "author" (interface, Video comments) it keeps only the id, replaced by its pseudonym. Other members
// become null, and so does the id if the pseudonym is "". A changed body is stored decompressed. For a
// body that is incomplete or not JSON see [Answer.dropUnreadable].
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
