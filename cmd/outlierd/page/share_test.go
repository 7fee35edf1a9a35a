package page

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/sync/marks"
)

// A shared file has the chosen videos without topics, tags, notes, scripts or other pictures.
func TestSharedFileContainsOnlyChosenData(t *testing.T) {
	t.Parallel()
	views, ratio := int64(1234567), 41.2
	s := Shared{Title: "Week <48>", At: time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC), Pictures: map[string]thumbnails.Picture{
		"a": {Type: "image/png", Data: []byte("picture of a")}, "z": {Type: "image/png", Data: []byte("of another video")}}}
	for _, title := range []string{"<script>alert(1)</script>", "\u202eesrever", strings.Repeat("x", 5000), `" onload="alert(1)`, "</style>"} {
		s.Cards = append(s.Cards, Card{ID: "a", Title: title, Link: "https://youtu.be/a", Channel: "<b>channel</b>", Views: &views, Ratio: &ratio,
			Topics: []string{"secret topic"}, Mark: marks.Mark{Tags: []string{"secret tag"}, Note: "secret note", Starred: true}})
	}
	s.Cards = append(s.Cards, Card{ID: "b", Title: "without picture and numbers", Link: "javascript:alert(1)"})
	var b bytes.Buffer
	if err := s.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	file := b.String()
	for _, want := range []string{
		"<title>Week &lt;48&gt;</title>", "&lt;script&gt;alert(1)", `src="data:image/png;base64,cGljdHVyZSBvZiBh"`, "6 videos, as of 2026-11-28 08:00 UTC",
		`content="default-src 'none'; img-src data:; style-src 'unsafe-inline'"`, ">41×<", ">1.2M<", "&lt;b&gt;channel",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("the file has no %s", want)
		}
	}
	for _, unwanted := range []string{"secret", "<script", `" onload="`, "javascript:", "/thumbnails/", "b2YgYW5vdGhlciB2aWRlbw", "<form", "★", "url("} {
		if strings.Contains(file, unwanted) {
			t.Errorf("the file has %s", unwanted)
		}
	}
	if n := strings.Count(file, "http"); n != strings.Count(file, "https://youtu.be/a")+1 { // and http-equiv
		t.Errorf("the file has %d addresses, and others than those of videos", n)
	}
}
