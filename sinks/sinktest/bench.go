package sinktest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"outlierd/schema"
	"outlierd/sinks"
)

// Hits returns the answers (lo, hi] as search pages of 40 hits each, similar to those of the service in
// size and variety. Nearly all videos are new.
func Hits(lo, hi int64) sinks.Batch {
	var rows []Row
	r := rand.New(rand.NewPCG(uint64(lo), 1))
	for id := lo + 1; id <= hi; id++ {
		for range 40 {
			rows = append(rows, hit(r, id))
		}
	}
	return sinks.Batch{Lo: lo, Hi: hi, Parts: []schema.Part{
		{Table: schema.Outliers, Rows: Record(schema.Outliers.Schema(), rows)},
		{Table: schema.OutliersHistory, Rows: Record(schema.OutliersHistory.Schema(), rows)},
	}}
}

func hit(r *rand.Rand, id int64) Row {
	video, channel := fmt.Sprintf("%011x", r.Uint64N(1<<44)), r.IntN(300)
	row := Row{"source": "search", "queries": []any{"street food"}, "item": "food",
		"page": id % 5, "rank": int64(r.IntN(200)),
		"_run_id": "0199a3c2-7b1e-7d3a-9c55-0123456789ab", "_job": "food", sinks.ResponseID: id,
		sinks.ObservedAt: moment(id), "video_id": video, "kind": "video",
		"channel_id": fmt.Sprintf("UC%022d", channel), "channel_title": fmt.Sprintf("Channel %d", channel),
		"channel_handle": fmt.Sprintf("@channel%d", channel), "language": "en", "quality": "hd",
		"title":         fmt.Sprintf("How %x made %d bowls of %x before dawn 🍜", r.Uint32(), r.IntN(1000), r.Uint32()),
		"thumbnail_url": "https://img.example.com/vi/" + video + "/high.jpg",
		"thumbnails": Row{"default": image(video, "default", 120), "medium": image(video, "medium", 320),
			"high": image(video, "high", 480)},
	}
	for _, c := range schema.Outliers.Columns {
		if row[c.Name] != nil {
			continue
		}
		switch c.Type.ID() {
		case arrow.INT64:
			row[c.Name] = r.Int64N(1 << 20)
		case arrow.FLOAT64:
			row[c.Name] = r.Float64() * 100
		case arrow.BOOL:
			row[c.Name] = r.IntN(2) == 0
		case arrow.TIMESTAMP:
			row[c.Name] = start.Add(-time.Duration(r.IntN(1e9)) * time.Millisecond)
		}
	}
	return row
}

func image(video, name string, width int64) Row {
	return Row{"url": "https://img.example.com/vi/" + video + "/" + name + ".jpg", "width": width, "height": width * 3 / 4}
}

// Events returns the answers (lo, hi] as transcripts of 200 events each, all of new videos.
func Events(lo, hi int64) sinks.Batch {
	var rows []Row
	r := rand.New(rand.NewPCG(uint64(lo), 2))
	for id := lo + 1; id <= hi; id++ {
		at := int64(0)
		for position := range int64(200) {
			took := 1000 + r.Int64N(4000)
			text := ""
			for range 6 + r.IntN(4) {
				text += words[r.IntN(len(words))] + " "
			}
			rows = append(rows, Row{"video_id": fmt.Sprintf("vid%08x", id), "position": position,
				"start_ms": at, "duration_ms": took, "end_ms": at + took, "text": text, sinks.ResponseID: id})
			at += took
		}
	}
	return sinks.Batch{Lo: lo, Hi: hi, Parts: []schema.Part{
		{Table: schema.TranscriptEvents, Rows: Record(schema.TranscriptEvents.Schema(), rows)},
	}}
}

func moment(id int64) time.Time { return start.Add(time.Duration(id) * time.Second) }
