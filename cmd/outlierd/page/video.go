package page

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Video is what the tables have about a video. Unknown numbers are nil.
type Video struct {
	ID, Title, Link    string // Link is the address of the video; "" if the id has an unknown form
	Channel, ChannelID string
	Kind, Language     string

	Seconds                *int64 // duration
	Views, Likes, Remarks  *int64 // Remarks is the number of comments
	Ratio, Score           *float64
	Published, First, Last string // times of publication and of the first and last sighting

	Description string
	Curve       []Point // views over time
	Sightings   []Sighting
	Changes     []Change
	Comments    []Comment
	Lines       []Line
	LineCount   int64 // matching lines, on all pages
}

// Sighting is a hit of a search.
type Sighting struct {
	At, Job, Run, Search string
	Page, Rank           *int64 // from 1
}

// Change is an earlier title.
type Change struct{ At, Before, After string }

// Comment is a comment on a video.
type Comment struct {
	Author, Text, At string
	Likes, Replies   *int64
	Owner            bool // the channel's owner wrote it
}

// Line is a line of a transcript.
type Line struct{ At, Link, Text string }

// VideoFilter selects a video and lines of its transcript.
type VideoFilter struct {
	ID    string
	Words string // words that the lines contain; "" for all lines
	Page  int    // of [LinesPerPage] lines, from 1
}

// Channel is what the tables have about a channel.
type Channel struct {
	ID, Title, Handle, Description, Last string

	// Median is the median of the views of its videos. Outliers are those among the sampled videos.
	Subscribers, Videos, Median, Outliers *int64

	Curve       []Point // subscribers over time
	Uploads     []Upload
	UploadCount int64 // on all pages
}

// Upload is a video of a channel.
type Upload struct {
	ID, Title, Kind, Published string

	Views        *int64
	Ratio, Score *float64
}

// ChannelFilter selects a channel and a page of its videos.
type ChannelFilter struct {
	ID   string
	Page int // of [PerPage] videos, from 1
}

// LinesPerPage is the number of transcript lines per page.
const LinesPerPage = 500

// Length returns the duration of the video.
func (v *Video) Length() string {
	if v.Seconds == nil {
		return ""
	}
	return Clock(*v.Seconds)
}

// Clock formats seconds as video players do, such as 1:02:03 or 4:05.
func Clock(s int64) string {
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// video shows a video.
func (s *Site) video(w http.ResponseWriter, r *http.Request) {
	form := r.URL.Query()
	number, err := pageOf(form)
	if err == nil {
		err = tooLong(form)
	}
	if err != nil {
		s.say(w, http.StatusBadRequest, err.Error())
		return
	}
	view := videoView{Filter: VideoFilter{ID: r.PathValue("video"), Words: strings.TrimSpace(form.Get("words")),
		Page: number}}
	view.Video, err = read(s, r, func(ctx context.Context) (*Video, error) { return s.from.Video(ctx, view.Filter) })
	if err != nil {
		s.refuse(w, r, "video", err)
		return
	}
	view.Chart = newChart(view.Curve)
	s.show(w, "video.html", view)
}

// channel shows a channel.
func (s *Site) channel(w http.ResponseWriter, r *http.Request) {
	number, err := pageOf(r.URL.Query())
	if err != nil {
		s.say(w, http.StatusBadRequest, err.Error())
		return
	}
	view := channelView{Filter: ChannelFilter{ID: r.PathValue("channel"), Page: number}}
	view.Channel, err = read(s, r, func(ctx context.Context) (*Channel, error) { return s.from.Channel(ctx, view.Filter) })
	if err != nil {
		s.refuse(w, r, "channel", err)
		return
	}
	view.Chart = newChart(view.Curve)
	s.show(w, "channel.html", view)
}

// pageOf returns the page number in a form; default 1.
func pageOf(form url.Values) (int, error) {
	number := strings.TrimSpace(form.Get("page"))
	if number == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0, fmt.Errorf("page: must be a number from 1 to 1000000, got %q", number)
	}
	return n, nil
}

// videoView and channelView are the data of these pages.
type (
	videoView struct {
		*Video
		Filter VideoFilter
		Chart  *chart
	}
	channelView struct {
		*Channel
		Filter ChannelFilter
		Chart  *chart
	}
)

// Previous and Next are the addresses of the neighbouring lines, or "".
func (v videoView) Previous() string {
	return v.address(v.Filter.Page-1, v.Filter.Page > 1)
}

func (v videoView) Next() string {
	return v.address(v.Filter.Page+1, int64(v.Filter.Page)*LinesPerPage < v.LineCount)
}

func (v videoView) address(page int, is bool) string {
	if !is {
		return ""
	}
	form := url.Values{}
	if v.Filter.Words != "" {
		form.Set("words", v.Filter.Words)
	}
	return paged("/videos/"+url.PathEscape(v.ID), form, page) + "#transcript"
}

// Previous and Next are the addresses of the neighbouring videos, or "".
func (v channelView) Previous() string {
	if v.Filter.Page == 1 {
		return ""
	}
	return paged("/channels/"+url.PathEscape(v.ID), url.Values{}, v.Filter.Page-1)
}

func (v channelView) Next() string {
	if int64(v.Filter.Page)*PerPage >= v.UploadCount {
		return ""
	}
	return paged("/channels/"+url.PathEscape(v.ID), url.Values{}, v.Filter.Page+1)
}

// paged returns the address of a page; the first page has no number.
func paged(path string, form url.Values, page int) string {
	if page > 1 {
		form.Set("page", strconv.Itoa(page))
	}
	if len(form) == 0 {
		return path
	}
	return path + "?" + form.Encode()
}
