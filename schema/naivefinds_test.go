package schema

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"outlierd/outlier"
)

// The examples of the endpoints that are no part of the benchmark, by way of structs
// with pointers, which tell null from zero.
type (
	naiveChannelPage struct {
		Hits []naiveChannel `json:"hits"`
	}
	naiveChannel struct {
		ID      string `json:"id"`
		Snippet struct {
			Handle      string   `json:"handle"`
			Title       string   `json:"title"`
			ContentKind []string `json:"contentKind"`
		} `json:"snippet"`
		Statistics struct {
			Subscribers *int64   `json:"subscribers"`
			Average     *float64 `json:"averageViews"`
			Ratio       *float64 `json:"avgViewsToSubscribersRatio"`
		} `json:"statistics"`
		Language     *struct{ Code string }   `json:"language"`
		Monetization *struct{ Adsense *bool } `json:"monetization"`
		Class        struct {
			Quality    *string `json:"quality"`
			IsFaceless *bool   `json:"isFaceless"`
		} `json:"classification"`
	}
	naiveScan struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Status string `json:"status"`
		Input  struct {
			Query     []string `json:"query"`
			Threshold struct {
				Channels      *int64 `json:"channels"`
				OutlierVideos *int64 `json:"outlierVideos"`
			} `json:"threshold"`
		} `json:"input"`
		Ended   *time.Time `json:"endedAt"`
		Created *time.Time `json:"createdAt"`
		Updated *time.Time `json:"updatedAt"`
	}
	naiveFormats struct {
		Formats []json.RawMessage `json:"formats"`
	}
)

// naively decodes an example into the rows of a table.
func naively(t *testing.T, op outlier.Operation, table *Table) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, table.Schema())
	defer b.Release()
	body, src := []byte(example(t, op)), source(op)
	switch table {
	case FoundChannelsHistory:
		for i, hit := range unmarshal[naiveChannelPage](t, body).Hits {
			hit.row(&columns{b, 0}, i, src)
		}
	case Scans:
		unmarshal[naiveScan](t, body).row(&columns{b, 0}, src)
	case TrendingFormats:
		for i, format := range unmarshal[naiveFormats](t, body).Formats {
			var value bytes.Buffer
			if err := json.Compact(&value, format); err != nil {
				t.Fatal(err)
			}
			c := &columns{b, 0}
			c.ints(int64(i))
			c.texts(value.String())
			c.next().AppendNull()
			c.lineage(src)
		}
	}
	return b.NewRecordBatch()
}

func (hit *naiveChannel) row(c *columns, i int, src Source) {
	c.texts(hit.ID, hit.Snippet.Handle, hit.Snippet.Title)
	c.list(hit.Snippet.ContentKind)
	maybe(c, hit.Statistics.Subscribers)
	maybe(c, hit.Statistics.Average)
	maybe(c, hit.Statistics.Ratio)
	if hit.Language == nil {
		c.next().AppendNull()
	} else {
		c.texts(hit.Language.Code)
	}
	if hit.Monetization == nil {
		c.next().AppendNull()
	} else {
		maybe(c, hit.Monetization.Adsense)
	}
	maybe(c, hit.Class.Quality)
	maybe(c, hit.Class.IsFaceless)
	c.extra()
	c.texts(src.Kind)
	for _, list := range [][]string{src.Queries, src.Seeds} {
		if list == nil {
			c.next().AppendNull()
		} else {
			c.list(list)
		}
	}
	c.next().AppendNull()
	c.ints(int64(src.Page), int64(src.RankBase+i+1))
	c.lineage(src)
}

func (scan *naiveScan) row(c *columns, src Source) {
	c.texts(scan.ID, scan.Name, scan.Status, src.FindBy, src.Mode)
	c.list(scan.Input.Query)
	maybe(c, scan.Input.Threshold.Channels)
	maybe(c, scan.Input.Threshold.OutlierVideos)
	for _, at := range []*time.Time{scan.Created, scan.Updated, scan.Ended} {
		if at == nil {
			c.next().AppendNull()
		} else {
			c.next().(*array.TimestampBuilder).Append(arrow.Timestamp(at.UnixMicro()))
		}
	}
	c.ints(src.Credits)
	c.extra()
	c.lineage(src)
}

// maybe appends a value that may be null.
func maybe[T any](c *columns, v *T) {
	b := c.next()
	if v == nil {
		b.AppendNull()
		return
	}
	b.(interface{ Append(T) }).Append(*v)
}

func unmarshal[T any](t *testing.T, body []byte) *T {
	t.Helper()
	v := new(T)
	if err := json.Unmarshal(body, v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestExamplesDecodeLikeStructs(t *testing.T) {
	for op, table := range map[outlier.Operation]*Table{
		outlier.OpFindChannels: FoundChannelsHistory, outlier.OpFindRelatedChannels: FoundChannelsHistory,
		outlier.OpStartScan: Scans, outlier.OpScan: Scans, outlier.OpTrendingFormats: TrendingFormats,
	} {
		want := naively(t, op, table)
		defer want.Release()
		parts, _ := decode(t, op, example(t, op))
		for i, c := range want.Columns() {
			column := want.ColumnName(i)
			if table == TrendingFormats && column == "extra" || column == fieldsMissing.Name {
				continue // the baseline keeps none
			}
			if got := parts[table.Name].Column(i); !array.Equal(got, c) {
				t.Errorf("%s, %s.%s: decoded %s, by way of structs %s", op, table.Name, column, got, c)
			}
		}
	}
}
