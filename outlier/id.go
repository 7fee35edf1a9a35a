package outlier

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// People often have an address instead of an id. The form of the path, with any host, shows where the id is:
//
//	host/watch?v=ID  host/ID  host/shorts/ID  host/live/ID  host/embed/ID    a video
//	host/channel/ID  host/channel/ID/videos                                  a channel
//	host/@name  host/c/name  host/user/name                                  a channel, by name only

// maxID is the maximum length of an id, in bytes.
const maxID = 256

// IsID reports whether a text from the service can be an id, whatever its form: it is not blank, has no
// control characters, and at most 256 bytes.
func IsID(s string) bool {
	return len(s) <= maxID && strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, unicode.IsControl)
}

// ParseVideoID parses the id of a video or short, or its address with or without the scheme. The error
// describes the given text.
func ParseVideoID(s string) (string, error) {
	s = strings.TrimSpace(s)
	if videoID.MatchString(s) {
		return s, nil
	}
	path, query := splitAddress(s)
	switch id := videoIn(path, query); {
	case videoID.MatchString(id):
		return id, nil
	case channelID.MatchString(s) || isChannel(path):
		return "", fmt.Errorf("%q is a channel, not a video", cleanLine(s))
	}
	return "", fmt.Errorf("%q is neither a video id, 11 letters, digits, - or _, nor the address of a video", cleanLine(s))
}

// ParseChannelID parses the id of a channel, or an address that contains the id, with or without the
// scheme. The service identifies channels by id only: for a name, the error says where to find the id.
func ParseChannelID(s string) (string, error) {
	s = strings.TrimSpace(s)
	if channelID.MatchString(s) {
		return s, nil
	}
	path, query := splitAddress(s)
	switch {
	case len(path) > 1 && path[0] == "channel" && channelID.MatchString(path[1]):
		return path[1], nil
	case strings.HasPrefix(s, "@") || isChannel(path):
		return "", fmt.Errorf("%q names a channel without its id; "+remedy, cleanLine(s))
	case videoID.MatchString(s) || videoID.MatchString(videoIn(path, query)):
		return "", fmt.Errorf("%q is a video, not a channel", cleanLine(s))
	}
	return "", fmt.Errorf("%q is neither a channel id, 24 letters, digits, - or _, "+
		"nor the address of a channel; "+remedy, cleanLine(s))
}

// IsChannelID reports whether s has the form of a channel's id.
func IsChannelID(s string) bool { return channelID.MatchString(s) }

// ParseChannel parses what stands for a channel in lists of people: its id, an address that contains the id,
// its handle with or without @, an address that contains the handle, or one of its videos. It returns the
// id, the handle with its @ and in lower case, or the id of the video. A word of 11 letters may be a handle
// or a video, and is returned as it is. The service accepts only ids, but its answers have the id beside
// handles and videos.
func ParseChannel(s string) (string, error) {
	s = strings.TrimSpace(s)
	path, query := splitAddress(s)
	switch {
	case channelID.MatchString(s) || videoID.MatchString(s):
		return s, nil
	case len(path) > 0 && isHandle(path[0]):
		return strings.ToLower(path[0]), nil
	case videoID.MatchString(videoIn(path, query)):
		return videoIn(path, query), nil
	case isHandle("@" + strings.TrimPrefix(s, "@")):
		return "@" + strings.ToLower(strings.TrimPrefix(s, "@")), nil
	}
	return ParseChannelID(s)
}

// isHandle reports whether s has the form of a handle. It accepts more than is allowed in handles:
// letters of any script, digits, dots, dashes. A regular expression with a hundred repetitions of all
// letters would take 4 MB at each start of the program.
func isHandle(s string) bool {
	name, marked := strings.CutPrefix(s, "@")
	n := utf8.RuneCountInString(name)
	return marked && 1 <= n && n <= 100 && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.N) && !strings.ContainsRune("._·-", r)
	})
}

const remedy = "copy its id of 24 characters from the channel's page"

// splitAddress returns the path and the query of an address; nil if s is not an address.
func splitAddress(s string) (path []string, query url.Values) {
	if !strings.Contains(s, "://") {
		s = "//" + strings.TrimPrefix(s, "//")
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return nil, nil
	}
	return strings.FieldsFunc(u.Path, func(r rune) bool { return r == '/' }), u.Query()
}

// videoIn returns the part of a path that may be the id of a video.
func videoIn(path []string, query url.Values) string {
	switch {
	case query.Has("v"):
		return query.Get("v")
	case len(path) == 1:
		return path[0]
	case len(path) == 2 && (path[0] == "shorts" || path[0] == "live" || path[0] == "embed"):
		return path[1]
	}
	return ""
}

// isChannel reports whether a path leads to a channel, by id or by name.
func isChannel(path []string) bool {
	if len(path) == 0 {
		return false
	}
	return strings.HasPrefix(path[0], "@") || len(path) > 1 &&
		(path[0] == "channel" || path[0] == "c" || path[0] == "user")
}
