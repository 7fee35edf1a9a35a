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

// fill replaces the placeholders of a template; see [phrases].
func fill(template, topic string, d *rand.Rand, v *phrases) string {
	s := strings.ReplaceAll(template, "{t}", topic)
	if strings.Contains(s, "{n}") {
		s = strings.ReplaceAll(s, "{n}", strconv.Itoa(2+d.IntN(98)))
	}
	if strings.Contains(s, "{a}") {
		s = strings.ReplaceAll(s, "{a}", pick(d, v.people))
	}
	return s
}

// capitals capitalizes the words of a Latin text.
func capitals(s string) string {
	w := strings.Split(s, " ")
	for i := range w {
		if w[i][0] < utf8.RuneSelf {
			w[i] = strings.ToUpper(w[i][:1]) + w[i][1:]
		}
	}
	return strings.Join(w, " ")
}

func paragraphs(v *phrases, topic string, d *rand.Rand, n int) string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fill(v.descriptions[i%len(v.descriptions)], topic, d, v)
	}
	return strings.Join(lines, "\n\n")
}

func (u *Upload) phrases() *phrases { return &phrasesOf[u.Channel.language] }

// topicName is the topic in the channel's language.
func (u *Upload) topicName() string {
	return u.Channel.Niche.Topics[u.Topic].Names[u.Channel.language]
}

// titleAt returns the title that details have at a time. One upload in ten changes its title
// every two weeks, as uploaders do to compare titles.
func (u *Upload) titleAt(at time.Time) string {
	const fortnight = 14 * 24 * 60 * 60
	if Hash(uint64(forTitle), u.address())%10 == 0 && at.Unix()%fortnight >= fortnight/2 {
		return u.title() + " [UPDATED]"
	}
	return u.title()
}

func (u *Upload) title() string {
	d := Random(u.Channel.Seed, forTitle, u.address())
	v := u.phrases()
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
	d := Random(u.Channel.Seed, forDescription, u.address())
	return paragraphs(u.phrases(), u.topicName(), d, d.IntN(6))
}

// words folds a text to its lower-case words, each between single spaces.
func words(s string) string {
	f := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	return " " + strings.Join(f, " ") + " "
}

// units are those of "3 weeks ago".
var units = []struct {
	name string
	span time.Duration
}{
	{"year", 365 * 24 * time.Hour}, {"month", 30 * 24 * time.Hour}, {"week", 7 * 24 * time.Hour},
	{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}, {"second", time.Second},
}

// ago is an age as a web page shows it.
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

// estimate returns the time that a text of [ago] stands for, as precise as a web page shows it.
func estimate(published, at time.Time) time.Time {
	age := at.Sub(published)
	for _, u := range units {
		if age >= u.span {
			return at.Add(-age.Truncate(u.span))
		}
	}
	return at
}

// roughly is a count as a web page shows it: "1.23M".
func roughly(n int64) string {
	switch {
	case n >= 1e6:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) + "M"
	case n >= 1e3:
		return strconv.FormatFloat(float64(n)/1e3, 'f', 1, 64) + "K"
	}
	return strconv.FormatInt(n, 10)
}
