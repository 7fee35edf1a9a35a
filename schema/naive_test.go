package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
)

// The structs of the baseline. They have no pointers, which would tell null from zero
// but cost an allocation each: the baseline is the fastest of its kind.
type (
	naivePage struct {
		Pagination map[string]int `json:"pagination"`
		Hits       []naiveHit     `json:"hits"`
	}
	naiveHit struct {
		ID             string             `json:"id"`
		Kind           string             `json:"kind"`
		Snippet        naiveSnippet       `json:"snippet"`
		Statistics     naiveHitStatistics `json:"statistics"`
		Classification naiveClass         `json:"classification"`
		Time           string             `json:"time"`
	}
	naiveSnippet struct {
		ChannelID           string            `json:"channelId"`
		ChannelTitle        string            `json:"channelTitle"`
		ChannelHandle       string            `json:"channelHandle"`
		ChannelSubscribers  int64             `json:"channelSubscribers"`
		Title               string            `json:"title"`
		PublishedAt         string            `json:"publishedAt"`
		Language            string            `json:"language"`
		Thumbnails          naiveThumbnails   `json:"thumbnails"`
		Duration            int64             `json:"duration"`
		Monetization        naiveMoney        `json:"monetization"`
		ChannelMonetization naiveChannelMoney `json:"channelMonetization"`
	}
	naiveImage struct {
		URL    string `json:"url"`
		Width  int64  `json:"width"`
		Height int64  `json:"height"`
	}
	naiveThumbnails struct {
		Default naiveImage `json:"default"`
		Medium  naiveImage `json:"medium"`
		High    naiveImage `json:"high"`
	}
	naiveMoney struct {
		RPMFrom     float64 `json:"rpmEstimationFrom"`
		RPMTo       float64 `json:"rpmEstimationTo"`
		RevenueFrom float64 `json:"revenueEstimationFrom"`
		RevenueTo   float64 `json:"revenueEstimationTo"`
	}
	naiveChannelMoney struct {
		RevenueFrom float64 `json:"revenueMonthlyEstimationFrom"`
		RevenueTo   float64 `json:"revenueMonthlyEstimationTo"`
		RPMFrom     float64 `json:"rpmEstimationFrom"`
		RPMTo       float64 `json:"rpmEstimationTo"`
		Adsense     bool    `json:"adsense"`
	}
	naiveHitStatistics struct {
		CommentCount      int64   `json:"commentCount"`
		LikeCount         int64   `json:"likeCount"`
		ViewCount         int64   `json:"viewCount"`
		ZScore            float64 `json:"zScore"`
		AverageViewsRatio float64 `json:"averageViewsRatio"`
		IsPositiveOutlier bool    `json:"isPositiveOutlier"`
		IsNegativeOutlier bool    `json:"isNegativeOutlier"`
	}
	naiveClass struct {
		IsFaceless bool   `json:"isFaceless"`
		Quality    string `json:"quality"`
	}
	naiveComments struct {
		Comments   []naiveComment `json:"comments"`
		ID         string         `json:"id"`
		Statistics struct {
			Count int64 `json:"count"`
		} `json:"statistics"`
	}
	naiveComment struct {
		AuthorChannelID      string       `json:"authorChannelId"`
		AuthorText           string       `json:"authorText"`
		AuthorThumbnail      []naiveImage `json:"authorThumbnail"`
		AuthorIsChannelOwner bool         `json:"authorIsChannelOwner"`
		Text                 string       `json:"text"`
		PublishedAt          string       `json:"publishedAt"`
		PublishedAtRaw       string       `json:"publishedAtRaw"`
		LikesCount           int64        `json:"likesCount"`
		LikesCountRaw        int64        `json:"likesCountRaw"`
		ReplyCount           int64        `json:"replyCount"`
		ReplyCountRaw        int64        `json:"replyCountRaw"`
	}
	naiveTranscript struct {
		Events     []naiveEvent `json:"events"`
		ID         string       `json:"id"`
		Transcript string       `json:"transcript"`
	}
	naiveEvent struct {
		StartMs    int64  `json:"startMs"`
		DurationMs int64  `json:"durationMs"`
		EndMs      int64  `json:"endMs"`
		Text       string `json:"text"`
	}
)

// naive decodes by way of structs.
type naive struct {
	hits, counts, comments, transcripts, events *array.RecordBuilder
}

func newNaive() *naive {
	of := func(t *Table) *array.RecordBuilder {
		return array.NewRecordBuilder(memory.DefaultAllocator, t.Schema())
	}
	return &naive{of(OutliersHistory), of(CommentCountsHistory), of(Comments), of(Transcripts), of(TranscriptEvents)}
}

func (n *naive) take() {
	for _, b := range []*array.RecordBuilder{n.hits, n.counts, n.comments, n.transcripts, n.events} {
		b.NewRecordBatch().Release()
	}
}

func (n *naive) decode(src Source, body []byte) error {
	switch src.Op {
	case outlier.OpSearch:
		return n.decodeHits(src, body)
	case outlier.OpComments:
		return n.decodeComments(src, body)
	default:
		return n.decodeTranscript(src, body)
	}
}

func (n *naive) decodeHits(src Source, body []byte) error {
	var page naivePage
	if err := json.Unmarshal(body, &page); err != nil {
		return err
	}
	for i, h := range page.Hits {
		c := columns{n.hits, 0}
		s, m, cm := &h.Snippet, &h.Snippet.Monetization, &h.Snippet.ChannelMonetization
		c.texts(h.ID, h.Kind, s.Title, s.ChannelID, s.ChannelTitle, s.ChannelHandle)
		c.ints(s.ChannelSubscribers)
		c.time(s.PublishedAt)
		c.texts(s.Language)
		thumbnails := c.next().(*array.StructBuilder)
		thumbnails.Append(true)
		for j, image := range []naiveImage{s.Thumbnails.Default, s.Thumbnails.Medium, s.Thumbnails.High} {
			appendImage(thumbnails.FieldBuilder(j).(*array.StructBuilder), image)
		}
		c.texts(s.Thumbnails.High.URL)
		c.ints(s.Duration)
		c.floats(m.RPMFrom, m.RPMTo, m.RevenueFrom, m.RevenueTo, cm.RevenueFrom, cm.RevenueTo, cm.RPMFrom, cm.RPMTo)
		c.bools(cm.Adsense)
		c.ints(h.Statistics.CommentCount, h.Statistics.LikeCount, h.Statistics.ViewCount)
		c.floats(h.Statistics.ZScore, h.Statistics.AverageViewsRatio)
		c.bools(h.Statistics.IsPositiveOutlier, h.Statistics.IsNegativeOutlier, h.Classification.IsFaceless)
		c.texts(h.Classification.Quality)
		c.time(h.Time)
		c.time("") // it was not imported
		c.extra()
		c.texts(src.Kind)
		c.list(src.Queries)
		c.list(src.Seeds)
		c.texts(src.Item)
		c.ints(int64(src.Page), int64(src.RankBase+i+1))
		c.texts(src.ScanID)
		c.lineage(src)
	}
	return nil
}

func (n *naive) decodeComments(src Source, body []byte) error {
	var answer struct {
		Items []naiveComments `json:"items"`
		Time  string          `json:"time"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	for _, item := range answer.Items {
		c := columns{n.counts, 0}
		c.texts(item.ID)
		c.ints(item.Statistics.Count, int64(len(item.Comments)))
		c.time(answer.Time)
		c.extra()
		c.lineage(src)
		for i, comment := range item.Comments {
			n.comment(src, item.ID, i, &comment)
		}
	}
	return nil
}

func (n *naive) comment(src Source, video string, i int, comment *naiveComment) {
	c := columns{n.comments, 0}
	sum := sha256.Sum256([]byte(comment.AuthorChannelID + comment.AuthorText + comment.Text))
	c.texts(video, hex.EncodeToString(sum[:16]), comment.AuthorChannelID, comment.AuthorText)
	images := c.next().(*array.ListBuilder)
	images.Append(true)
	for _, image := range comment.AuthorThumbnail {
		appendImage(images.ValueBuilder().(*array.StructBuilder), image)
	}
	c.bools(comment.AuthorIsChannelOwner)
	c.texts(comment.Text)
	c.time(comment.PublishedAt)
	c.texts(comment.PublishedAtRaw)
	c.ints(comment.LikesCount)
	c.texts(strconv.FormatInt(comment.LikesCountRaw, 10))
	c.ints(comment.ReplyCount)
	c.texts(strconv.FormatInt(comment.ReplyCountRaw, 10))
	c.ints(int64(i))
	c.extra()
	c.ints(src.Response)
}

func (n *naive) decodeTranscript(src Source, body []byte) error {
	var answer struct {
		Items []naiveTranscript `json:"items"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	for _, item := range answer.Items {
		c := columns{n.transcripts, 0}
		c.texts(item.ID, item.Transcript)
		c.ints(int64(len(item.Events)))
		c.extra()
		c.lineage(src)
		for i, e := range item.Events {
			c := columns{n.events, 0}
			c.texts(item.ID)
			c.ints(int64(i), e.StartMs, e.DurationMs, e.EndMs)
			c.texts(e.Text)
			c.ints(src.Response)
		}
	}
	return nil
}

// columns appends to the columns of a row, one after the other.
type columns struct {
	row *array.RecordBuilder
	at  int
}

func (c *columns) next() array.Builder {
	c.at++
	return c.row.Field(c.at - 1)
}

func (c *columns) texts(list ...string) {
	for _, s := range list {
		c.next().(*array.StringBuilder).Append(s)
	}
}

func (c *columns) ints(list ...int64) {
	for _, x := range list {
		c.next().(*array.Int64Builder).Append(x)
	}
}

func (c *columns) floats(list ...float64) {
	for _, x := range list {
		c.next().(*array.Float64Builder).Append(x)
	}
}

func (c *columns) bools(list ...bool) {
	for _, x := range list {
		c.next().(*array.BooleanBuilder).Append(x)
	}
}

func (c *columns) time(s string) {
	b := c.next().(*array.TimestampBuilder)
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		b.Append(arrow.Timestamp(t.UnixMicro()))
	} else {
		b.AppendNull()
	}
}

func (c *columns) list(of []string) {
	b := c.next().(*array.ListBuilder)
	b.Append(true)
	for _, s := range of {
		b.ValueBuilder().(*array.StringBuilder).Append(s)
	}
}

func (c *columns) lineage(src Source) {
	c.texts(src.Run, src.Job)
	c.ints(src.Response)
	c.next().(*array.TimestampBuilder).Append(arrow.Timestamp(src.ObservedAt.UnixMicro()))
}

func appendImage(b *array.StructBuilder, image naiveImage) {
	b.Append(true)
	b.FieldBuilder(0).(*array.StringBuilder).Append(image.URL)
	b.FieldBuilder(1).(*array.Int64Builder).Append(image.Width)
	b.FieldBuilder(2).(*array.Int64Builder).Append(image.Height)
}

// extra appends that nothing is unknown, and that nothing is missing.
func (c *columns) extra() {
	c.next().AppendNull()
	c.list(nil)
}
