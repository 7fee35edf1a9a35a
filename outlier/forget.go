package outlier

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-faster/jx"
)

// Forgotten is the JSON text that replaces a removed element of an array, see [Redact]. So the elements
// after it keep their positions and ranks.
const Forgotten = `"forgotten"`

// Mention reports whether a text in the JSON of an answer is an id to be removed. member is the name of
// the member that has the text; empty for an element of an array.
type Mention func(member, text []byte) bool

// Redact removes data about ids from a JSON body. It replaces each element of an array by [Forgotten] if
// it is such an id, or an object that contains one in its texts or in those of nested objects: a hit, a
// comment, an upload. Arrays within an object are processed on their own, so a video stays if only one of
// its comments is removed. Everything else stays unchanged, except for white space between values.
//
// Redact looks at all fields, documented or not, so that undocumented fields leave no gap. A body that is
// about an id as a whole, such as the answer about a channel, becomes nil. It returns an error if the
// body is not JSON. It calls taken, unless nil, with each removed value, which is valid until taken
// returns.
func Redact(body []byte, about Mention, taken func(value []byte)) (clean []byte, changed bool, err error) {
	if !jx.Valid(body) {
		return nil, false, errors.New("not JSON")
	}
	take := func(value []byte) {
		if changed = true; taken != nil {
			taken(value)
		}
	}
	if isAbout(jx.DecodeBytes(body), nil, about) {
		take(body)
		return nil, true, nil
	}
	w := rewriter{replace: func(name []byte, value jx.Raw) []byte {
		if name != nil || !isAbout(jx.DecodeBytes(value), nil, about) {
			return nil
		}
		take(value)
		return []byte(Forgotten)
	}}
	switch err := w.writeValue(body); {
	case err != nil:
		return nil, false, err
	case changed:
		return w.Buf, true, nil
	}
	return body, false, nil
}

// isAbout reports whether the next value in d, which is valid, is an id to be removed, or an object with one in its
// texts or in those of nested objects. member is the name of the member that has the value.
func isAbout(d *jx.Decoder, member []byte, about Mention) (found bool) {
	switch d.Next() {
	case jx.String:
		text, err := d.StrBytes()
		return err != nil || about(member, text)
	case jx.Object:
		err := d.ObjBytes(func(d *jx.Decoder, name []byte) error {
			found = isAbout(d, name, about) || found
			return nil
		})
		return err != nil || found
	}
	return d.Skip() != nil
}

// eraseForgotten removes data about forgotten ids from an answer that has just arrived. A changed body is stored
// decompressed. For a body that is incomplete or not JSON see [Answer.dropUnreadable].
func (a *Answer) eraseForgotten(about Mention) {
	body, err := a.JSON()
	if about == nil || err != nil {
		return
	}
	if clean, changed, err := Redact(body, about, nil); err == nil && changed {
		a.Body, a.Encoding, a.opened = clean, "", nil
	}
}

// dropUnreadable drops a body that is incomplete or not JSON if what can be read of it names a forgotten id,
// or may name an author that must not be stored.
func (a *Answer) dropUnreadable(c *Client) {
	authors := c.Pseudonym != nil && a.Request.op == OpComments
	if c.Forgotten == nil && !authors {
		return
	}
	body, err := a.JSON()
	if err == nil && jx.Valid(body) {
		return
	}
	if err != nil {
		body = ReadablePart(a.Body)
	}
	if authors || namesForgotten(body, c.Forgotten) || a.Encoding != "" && a.Encoding != "gzip" {
		a.Body, a.Encoding, a.opened = nil, "", nil
	}
}

// namesForgotten reports whether a text that need not be JSON has an id.
func namesForgotten(text []byte, about Mention) bool {
	var before []byte // the name of the member, if the text is one's value
	for word := range bytes.FieldsFuncSeq(text, isNoIDRune) {
		if about(before, word) || about(nil, word) {
			return true
		}
		before = word
	}
	return false
}

func isNoIDRune(r rune) bool {
	return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// mentionsForgotten reports whether a request names a forgotten id.
func (r *Request) mentionsForgotten(about Mention) bool {
	if about == nil {
		return false
	}
	named := about(nil, []byte(r.entity))
	for _, values := range r.params {
		for _, value := range values {
			named = named || about(nil, []byte(value))
		}
	}
	return named
}

// VideoIDs returns the ids of videos in a JSON value: the texts of that form in members named id.
func VideoIDs(value []byte) (ids []string) {
	var within func(d *jx.Decoder, member string) error
	within = func(d *jx.Decoder, member string) error {
		switch d.Next() {
		case jx.Object:
			return d.Obj(within)
		case jx.Array:
			return d.Arr(func(d *jx.Decoder) error { return within(d, "") })
		case jx.String:
			text, err := d.Str()
			if member == "id" && err == nil && videoID.MatchString(text) {
				ids = append(ids, text)
			}
			return err
		}
		return d.Skip()
	}
	_ = within(jx.DecodeBytes(value), "") // of invalid JSON, the ids before the error are returned
	return ids
}

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
	w := rewriter{replace: func(name []byte, value jx.Raw) []byte {
		if !bytes.HasPrefix(name, []byte("author")) || string(name) == authorOwner {
			return nil
		}
		var id string
		if string(name) == "authorChannelId" && value.Type() == jx.String {
			id, _ = jx.DecodeBytes(value).Str() // valid, as the body is
		}
		if id != "" {
			id = pseudonym(id)
		}
		if id == "" {
			return []byte("null")
		}
		var text jx.Writer
		text.Str(id)
		return text.Buf
	}}
	if w.writeValue(body) == nil {
		a.Body, a.Encoding, a.opened = w.Buf, "", nil
	}
}

// maxNesting limits the depth of a value that is rewritten, since each level is copied. No answer needs as much.
const maxNesting = 100

// A rewriter copies JSON. It asks replace about each member of an object and each element of an array, whose name is
// nil, and writes what it returns in its place, unless that is nil. White space between values is not kept.
type rewriter struct {
	jx.Writer
	replace func(name []byte, value jx.Raw) []byte
	depth   int
}

func (w *rewriter) writeValue(value jx.Raw) error {
	if w.depth++; w.depth > maxNesting {
		return fmt.Errorf("nested more than %d levels deep", maxNesting)
	}
	defer func() { w.depth-- }()
	d, first := jx.DecodeBytes(value), true
	writePart := func(d *jx.Decoder, name []byte) error {
		if !first {
			w.Comma()
		}
		first = false
		if name != nil {
			w.FieldStart(string(name))
		}
		part, err := d.Raw()
		if err != nil {
			return err
		}
		if other := w.replace(name, part); other != nil {
			w.Raw(other)
			return nil
		}
		return w.writeValue(part)
	}
	switch value.Type() {
	case jx.Object:
		w.ObjStart()
		err := d.ObjBytes(writePart)
		w.ObjEnd()
		return err
	case jx.Array:
		w.ArrStart()
		err := d.Arr(func(d *jx.Decoder) error { return writePart(d, nil) })
		w.ArrEnd()
		return err
	}
	w.Raw(value)
	return nil
}
