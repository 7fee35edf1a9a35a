package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

// The functions here append values derived from a row's other columns or its place.

// computeRank appends the place of a hit in the whole result, from 1.
func computeRank(v *vector, _ []*vector, r *record) {
	v.word(int64((*r.src).RankBase + r.index + 1))
}

// computePosition appends the place in the array, from 0.
func computePosition(v *vector, _ []*vector, r *record) { v.word(int64(r.index)) }

// computeTime appends a text parsed as a time, or null if it is not one.
func computeTime(v *vector, of []*vector, _ *record) {
	if t, ok := parseTime(of[0].last()); ok {
		v.word(t)
	} else {
		v.null()
	}
}

// computeExtra appends the values that have no column, as a JSON object; null if there are none.
func computeExtra(v *vector, _ []*vector, r *record) {
	if len(r.strays.json) == 0 {
		v.null()
		return
	}
	v.text(append(r.strays.json, '}'))
	r.strays.clear()
}

// computeFieldsMissing appends the list, perhaps empty, of the columns whose field the row lacks.
func computeFieldsMissing(v *vector, _ []*vector, r *record) {
	for missing := r.all &^ r.seen; missing != 0; missing &= missing - 1 {
		if name := r.names[bits.TrailingZeros64(missing)]; name != "" {
			v.kids[0].text([]byte(name))
		}
	}
	v.end()
}

// computeChildren appends the number of rows inside the row; null if the answer lacks their place.
func computeChildren(v *vector, _ []*vector, r *record) {
	if kid := r.kids[0]; kid.given {
		v.word(int64(kid.rows.n - kid.mark))
	} else {
		v.null()
	}
}

// computeLargest appends the URL of the image with the most pixels. Among equals, or without sizes,
// it is the last one, because images with names are in ascending order.
func computeLargest(v *vector, of []*vector, _ *record) {
	var url []byte
	most := int64(0)
	better := func(images *vector, i int) {
		fields := images.kids[len(images.kids)-3:] // url, width, height
		if u, size := fields[0].at(i), fields[1].words[i]*fields[2].words[i]; len(u) > 0 && size >= most {
			url, most = u, size
		}
	}
	if from := of[0]; from.form == listing {
		begin, end := from.span(from.rows - 1)
		for i := begin; i < end; i++ {
			better(from.kids[0], int(i))
		}
	} else {
		for _, images := range from.kids {
			better(images, images.rows-1)
		}
	}
	v.texts(url, 1)
}

// commentHash identifies a comment's author and text. Its parent separates the comments of
// different videos.
type commentHash struct {
	parent int
	sum    [16]byte
}

// computeCommentKey appends a hash of author and text. For a repetition in the same answer the hash
// includes the number of earlier occurrences.
func computeCommentKey(v *vector, of []*vector, r *record) {
	said := make([]byte, 0, 512)
	for _, part := range of {
		said = binary.AppendUvarint(said, uint64(len(part.last())))
		said = append(said, part.last()...)
	}
	sum := sha256.Sum256(said)
	r.content = commentHash{r.mark, [16]byte(sum[:16])}
	if before := len(r.same[r.content]); before > 0 {
		sum = sha256.Sum256(binary.AppendUvarint(sum[:16:16], uint64(before)))
	}
	v.bytes = hex.AppendEncode(v.bytes, sum[:16])
	v.end()
}
