package library

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// fill replaces the placeholders of a template, see voice.
func fill(template, topic string, d *rand.Rand, v *voice) string {
	s := strings.ReplaceAll(template, "{t}", topic)
	if strings.Contains(s, "{n}") {
		s = strings.ReplaceAll(s, "{n}", strconv.Itoa(2+d.IntN(98)))
	}
	if strings.Contains(s, "{a}") {
		s = strings.ReplaceAll(s, "{a}", pick(d, v.names))
	}
	return s
}

// capitals writes the words of a Latin text with capital letters.
func capitals(s string) string {
	w := strings.Split(s, " ")
	for i := range w {
		if w[i][0] < utf8.RuneSelf {
			w[i] = strings.ToUpper(w[i][:1]) + w[i][1:]
		}
	}
	return strings.Join(w, " ")
}

func paragraphs(v *voice, topic string, d *rand.Rand, n int) string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fill(v.blurb[i%len(v.blurb)], topic, d, v)
	}
	return strings.Join(lines, "\n\n")
}

func (u *Upload) voice() *voice { return &voices[u.Channel.language] }

// topicName is the topic in the channel's language.
func (u *Upload) topicName() string {
	return u.Channel.Niche.Topics[u.Topic].Names[u.Channel.language]
}

func (u *Upload) title() string {
	d := Dice(u.Channel.Seed, aboutTitle, u.address())
	v := u.voice()
	if Chance(d, 0.01) {
		return fill(pick(d, hostile), u.topicName(), d, v)
	}
	templates := v.titles
	if u.Kind == Short {
		templates = v.shorts
	}
	t := fill(pick(d, templates), u.topicName(), d, v)
	if u.Kind == Video && Chance(d, 0.1) {
		t = strings.ToUpper(t)
	}
	if Chance(d, 0.25) {
		t += " " + pick(d, decorations)
	}
	if u.Kind == Short && Chance(d, 0.4) {
		t += " #shorts"
	}
	return t
}

func (u *Upload) description() string {
	d := Dice(u.Channel.Seed, aboutDescription, u.address())
	return paragraphs(u.voice(), u.topicName(), d, d.IntN(6))
}

// words folds a text to its lower-case words, each between single spaces.
func words(s string) string {
	f := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	return " " + strings.Join(f, " ") + " "
}

// units are the steps of "3 weeks ago".
var units = []struct {
	name string
	span time.Duration
}{
	{"year", 365 * 24 * time.Hour}, {"month", 30 * 24 * time.Hour}, {"week", 7 * 24 * time.Hour},
	{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second},
}

// ago is the age of something as a page shows it.
func ago(age time.Duration) string {
	for _, u := range units {
		if n := int(age / u.span); n == 1 {
			return "1 " + u.name + " ago"
		} else if n > 1 {
			return fmt.Sprintf("%d %ss ago", n, u.name)
		}
	}
	return "just now"
}

// estimate is the instant that ago leads back to: what is known of an upload's
// date when only its page was seen.
func estimate(published, at time.Time) time.Time {
	age := at.Sub(published)
	for _, u := range units {
		if age >= u.span {
			return at.Add(-age.Truncate(u.span))
		}
	}
	return at
}

// roughly is a count as a page shows it: "1.23M".
func roughly(n int64) string {
	switch {
	case n >= 1e6:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) + "M"
	case n >= 1e3:
		return strconv.FormatFloat(float64(n)/1e3, 'f', 1, 64) + "K"
	}
	return strconv.FormatInt(n, 10)
}
