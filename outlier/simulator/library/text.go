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

// fillTemplate replaces the placeholders of a template; see [phrases].
func fillTemplate(template, topic string, d *rand.Rand, v *phrases) string {
	s := strings.ReplaceAll(template, "{t}", topic)
	if strings.Contains(s, "{n}") {
		s = strings.ReplaceAll(s, "{n}", strconv.Itoa(2+d.IntN(98)))
	}
	if strings.Contains(s, "{a}") {
		s = strings.ReplaceAll(s, "{a}", pickOne(d, v.people))
	}
	return s
}

// capitalizeWords capitalizes the words of a Latin text.
func capitalizeWords(s string) string {
	w := strings.Split(s, " ")
	for i := range w {
		if w[i][0] < utf8.RuneSelf {
			w[i] = strings.ToUpper(w[i][:1]) + w[i][1:]
		}
	}
	return strings.Join(w, " ")
}

func writeParagraphs(v *phrases, topic string, d *rand.Rand, n int) string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fillTemplate(v.descriptions[i%len(v.descriptions)], topic, d, v)
	}
	return strings.Join(lines, "\n\n")
}

func (u *Upload) phrases() *phrases { return &phrasesOf[u.Channel.language] }

// topicName is the topic in the channel's language.
func (u *Upload) topicName() string {
	return u.Topic().subject().names[u.Channel.language]
}

// titleAt returns the title that details have at a time. One upload in ten changes its title
// every two weeks, as uploaders do to compare titles.
func (u *Upload) titleAt(at time.Time) string {
	const fortnight = 14 * 24 * 60 * 60
	if Hash(uint64(forTitle), u.address())%10 == 0 && at.Unix()%fortnight >= fortnight/2 {
		return u.makeTitle() + " [UPDATED]"
	}
	return u.makeTitle()
}

func (u *Upload) makeTitle() string {
	d := Random(u.Channel.Seed, forTitle, u.address())
	v := u.phrases()
	if Chance(d, 0.01) {
		return fillTemplate(pickOne(d, hostile), u.topicName(), d, v)
	}
	templates := v.titles
	if u.Kind == Short {
		templates = v.shorts
	}
	t := fillTemplate(pickOne(d, templates), u.topicName(), d, v)
	if u.Kind == Video && Chance(d, 0.1) {
		t = strings.ToUpper(t)
	}
	if Chance(d, 0.25) {
		t += " " + pickOne(d, decorations)
	}
	if u.Kind == Short && Chance(d, 0.4) {
		t += " #shorts"
	}
	return t
}

func (u *Upload) makeDescription() string {
	d := Random(u.Channel.Seed, forDescription, u.address())
	return writeParagraphs(u.phrases(), u.topicName(), d, d.IntN(6))
}

// foldWords folds a text to its lower-case words, each between single spaces.
func foldWords(s string) string {
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

// formatAge is an age as a web page shows it.
func formatAge(age time.Duration) string {
	for _, u := range units {
		if n := int(age / u.span); n == 1 {
			return "1 " + u.name + " ago"
		} else if n > 1 {
			return fmt.Sprintf("%d %ss ago", n, u.name)
		}
	}
	return "just now"
}

// parseAge returns the time that a text of [formatAge] stands for, as precise as a web page shows it.
func parseAge(published, at time.Time) time.Time {
	age := at.Sub(published)
	for _, u := range units {
		if age >= u.span {
			return at.Add(-age.Truncate(u.span))
		}
	}
	return at
}

// formatCount is a count as a web page shows it: "1.23M".
func formatCount(n int64) string {
	switch {
	case n >= 1e6:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 2, 64) + "M"
	case n >= 1e3:
		return strconv.FormatFloat(float64(n)/1e3, 'f', 1, 64) + "K"
	}
	return strconv.FormatInt(n, 10)
}
