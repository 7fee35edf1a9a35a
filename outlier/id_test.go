package outlier

import (
	"strings"
	"testing"
)

const (
	aVideo   = "dQw4w9WgXcQ"
	aChannel = "UC1234567890abcdefghijkl"
)

// A video may be named by its ID or by an address.
func TestParseVideoIDAcceptsAddresses(t *testing.T) {
	for _, text := range []string{
		aVideo, "  " + aVideo + "\n",
		"https://video.test/watch?v=" + aVideo,
		"http://m.video.test/watch/?app=x&v=" + aVideo + "&t=42s#top",
		"www.video.test/watch?v=" + aVideo,
		"//video.test/watch?v=" + aVideo,
		"HTTPS://VIDEO.TEST:443/watch?v=" + aVideo,
		"video.test:8080/watch_popup?v=" + aVideo, // a path of 11 letters
		"https://vi.test/" + aVideo,
		"vi.test/" + aVideo + "/?si=abc",
		"https://video.test/shorts/" + aVideo,
		"video.test/live/" + aVideo + "?feature=share",
		"https://video.test/embed/" + aVideo + "/",
	} {
		if got, err := ParseVideoID(text); got != aVideo || err != nil {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
	}
	if got, err := ParseVideoID("01234567890"); got != "01234567890" || err != nil {
		t.Errorf("digits alone give %q, %v", got, err)
	}
}

// A channel may be named by its ID or by an address.
func TestParseChannelIDAcceptsAddresses(t *testing.T) {
	for _, text := range []string{
		aChannel, aChannel + " ",
		"https://video.test/channel/" + aChannel,
		"video.test/channel/" + aChannel + "/videos?view=0#x",
		"//video.test//channel/" + aChannel,
	} {
		if got, err := ParseChannelID(text); got != aChannel || err != nil {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
	}
}

// "" for a text that does not stand for a channel.
func TestHandlesAndVideosStandForChannels(t *testing.T) {
	for text, want := range map[string]string{
		"@Coffee.Weekly": "@coffee.weekly", " @name\n": "@name", "https://video.test/@Name/videos?x=1": "@name", "video.test/@näme": "@näme",
		"Coffee.Weekly": "@coffee.weekly", "nAme": "@name", "näme": "@näme", "@" + aChannel: "@" + strings.ToLower(aChannel),
		aVideo: aVideo, "https://video.test/watch?v=" + aVideo: aVideo, "vi.test/" + aVideo + "?si=x": aVideo, "CoffeeDaily": "CoffeeDaily",
		aChannel: aChannel, "video.test/channel/" + aChannel: aChannel, "https://video.test/@" + aVideo + "/videos": "@" + strings.ToLower(aVideo),
		"@": "", "": "", "two words": "", "@two words": "", "@a'b": "", "video.test/c/name": "", "video.test/@": "", "a,b": "",
		"someone@host.test": "",
	} {
		if got, err := ParseChannel(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q gives %q, %v, want %q", text, got, err, want)
		}
	}
}

// Invalid IDs are refused with a reason.
func TestInvalidIDsAreExplained(t *testing.T) {
	for _, tt := range []struct {
		parse      func(string) (string, error)
		text, want string
	}{
		{ParseVideoID, "", "neither a video id"},
		{ParseVideoID, aVideo[1:], "neither a video id"},
		{ParseVideoID, aVideo + "x", "neither a video id"},
		{ParseVideoID, "https://", "neither a video id"},
		{ParseVideoID, "https://video.test/", "neither a video id"},
		{ParseVideoID, "https://video.test/watch?v=short", "neither a video id"},
		{ParseVideoID, "https://video.test/watch?V=" + aVideo, "neither a video id"},
		{ParseVideoID, "https://video.test/playlist?list=PL" + aVideo, "neither a video id"},
		{ParseVideoID, "https://video.test/films/" + aVideo, "neither a video id"},
		{ParseVideoID, "https://video.test/shorts/" + aVideo + "/more", "neither a video id"},
		{ParseVideoID, "https://video.test/%zz/" + aVideo, "neither a video id"},
		{ParseVideoID, "a title\x1b[2J of a video", `"a title [2J of a video" is neither`},
		{ParseVideoID, aChannel, "is a channel, not a video"},
		{ParseVideoID, "video.test/channel/" + aChannel, "is a channel, not a video"},
		{ParseVideoID, "video.test/@name", "is a channel, not a video"},
		{ParseChannelID, "", "neither a channel id"},
		{ParseChannelID, aChannel[1:], "neither a channel id"},
		{ParseChannelID, "Coffee Weekly", "copy its id"},
		{ParseChannelID, "@name", "without its id; copy its id"},
		{ParseChannelID, "https://video.test/@name/videos", "without its id; copy its id"},
		{ParseChannelID, "video.test/c/name", "without its id"},
		{ParseChannelID, "video.test/user/" + aChannel, "without its id"}, // a name that looks like an id
		{ParseChannelID, "video.test/channel/name", "without its id"},
		{ParseChannelID, "video.test/" + aChannel, "neither a channel id"},
		{ParseChannelID, aVideo, "is a video, not a channel"},
		{ParseChannelID, "video.test/watch?v=" + aVideo, "is a video, not a channel"},
	} {
		id, err := tt.parse(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q gives %q, %v; want an error with %q", tt.text, id, err, tt.want)
		}
	}
}

func FuzzParseIDs(f *testing.F) {
	for _, text := range []string{aVideo, aChannel, "x.test/watch?v=" + aVideo, "//x.test/channel/" + aChannel, "@a", "https://[::1", "x/%2F" + aVideo, "?v=1", "::/#"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseVideoID(text); (err == nil) != videoID.MatchString(id) || err == nil && !strings.Contains(text, id) && !strings.Contains(text, "%") {
			t.Errorf("%q is the video %q, %v", text, id, err)
		}
		if id, err := ParseChannelID(text); (err == nil) != channelID.MatchString(id) || err == nil && !strings.Contains(text, id) && !strings.Contains(text, "%") {
			t.Errorf("%q is the channel %q, %v", text, id, err)
		}
	})
}
