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
