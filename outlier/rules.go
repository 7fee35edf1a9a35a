package outlier

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The codes of our own refusals. Those of the service are not shown.
const (
	codeEnum     = "enum"     // not one of the allowed values
	codePattern  = "pattern"  // not of the form
	codeBounds   = "bounds"   // too small or too large
	codeOrder    = "order"    // From above To: paid for, and always empty
	codeRequired = "required" // missing
)

// checkFields applies the rule of each parameter.
func checkFields(fields []Field) []FieldError {
	var all []FieldError
	for _, f := range fields {
		all = append(all, f.Check()...)
	}
	return all
}

// Check applies the rule of this one parameter (interface, Endpoints and Common
// filters). The Path of an error is the name on the wire: "viewCountTo".
func (f Field) Check() []FieldError {
	switch v := f.Value.(type) {
	case *string:
		if *v == "" {
			return nil
		}
		return f.checkText(*v)
	case *[]string:
		return f.checkList(*v)
	case *Range[int64]:
		return checkRange(f, *v, cmp.Compare[int64], f.checkInteger)
	case *Range[float64]:
		return checkRange(f, *v, cmp.Compare[float64], f.checkNumber)
	case *Range[time.Time]:
		return checkRange(f, *v, time.Time.Compare, checkInstant)
	}
	return nil
}

func (f Field) checkList(list []string) []FieldError {
	if f.required && len(list) == 0 {
		return f.wrong("", codeRequired, "is missing; give at least one")
	}
	var all []FieldError
	for _, s := range list {
		all = append(all, f.checkText(s)...)
	}
	return all
}

func (f Field) checkText(s string) []FieldError {
	switch {
	case !utf8.ValidString(s):
		return f.wrong("", codePattern, "is not valid UTF-8")
	case strings.TrimSpace(s) == "":
		return f.wrong("", codePattern, "is empty")
	case len(f.OneOf) > 0 && !slices.Contains(f.OneOf, s):
		return f.wrong("", codeEnum, fmt.Sprintf("must be one of %s, not %q", strings.Join(f.OneOf, ", "), clean(s)))
	case f.text != nil:
		if problem := f.text(s); problem != "" {
			return f.wrong("", codePattern, problem)
		}
	}
	return nil
}

// checkRange checks both ends of a range, and then their order. The interface
// allows From above To; it is refused because its answer is empty and costs the same.
func checkRange[T any](f Field, r Range[T], compare func(a, b T) int, end func(v T, isTo bool) string) []FieldError {
	var all []FieldError
	if r.From != nil {
		if problem := end(*r.From, false); problem != "" {
			all = append(all, f.wrong("From", codeBounds, problem)...)
		}
	}
	if r.To != nil {
		if problem := end(*r.To, true); problem != "" {
			all = append(all, f.wrong("To", codeBounds, problem)...)
		}
	}
	if len(all) == 0 && r.From != nil && r.To != nil && compare(*r.From, *r.To) > 0 {
		return f.wrong("From", codeOrder, "must not be above "+f.Name+"To")
	}
	return all
}

func (f Field) checkInteger(n int64, isTo bool) string {
	switch limit := f.most(isTo); {
	case f.positive && isTo && n <= 0:
		return fmt.Sprintf("must be above 0, not %d", n)
	case f.positive && n < 0:
		return fmt.Sprintf("must be 0 or more, not %d", n)
	case limit > 0 && n > int64(limit):
		return fmt.Sprintf("must be at most %d, not %d", int64(limit), n)
	}
	return ""
}

func (f Field) checkNumber(x float64, isTo bool) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "must be a finite number"
	case f.positive && isTo && x <= 0:
		return "must be above 0, not " + strconv.FormatFloat(x, 'g', -1, 64)
	case f.positive && x < 0:
		return "must be 0 or more, not " + strconv.FormatFloat(x, 'g', -1, 64)
	}
	return ""
}

// most is the upper bound of one end; of a whole number's From it is always M.
func (f Field) most(isTo bool) float64 {
	if f.maxTo > 0 && !isTo {
		return maxInteger
	}
	return f.maxTo
}

// checkInstant refuses what the interface's pattern, four digits of a year, cannot hold.
func checkInstant(t time.Time, _ bool) string {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Sprintf("must lie in the years 0 to 9999, not in %d", y)
	}
	return ""
}

func checkPage(from, size int64) []FieldError {
	var all []FieldError
	if from < 0 || from > maxInteger {
		all = append(all, FieldError{"from", codeBounds, fmt.Sprintf("must be 0 to %d, not %d", int64(maxInteger), from)})
	}
	if size < 1 || size > MaxSize {
		all = append(all, FieldError{"size", codeBounds, fmt.Sprintf("must be 1 to %d, not %d", MaxSize, size)})
	}
	return all
}

// checkChannelID holds a parameter to the form that the interface gives for
// channel ids in paths; for parameters it shows no rule.
func checkChannelID(s string) string {
	if channelID.MatchString(s) {
		return ""
	}
	return fmt.Sprintf("must be a channel id, 24 letters, digits, - or _, not %q", clean(s))
}

// checkVideoID does the same for ids of videos, where the interface shows the rule
// for one parameter, thumbnailVideoId.
func checkVideoID(s string) string {
	if videoID.MatchString(s) {
		return ""
	}
	return fmt.Sprintf("must be a video id, 11 letters, digits, - or _, not %q", clean(s))
}

// latin are the letters of which a title pattern must have two, accented ones
// included. Unicode's own Latin has more, of which the interface does not speak:
// numerals such as Ⅳ, full-width forms, phonetic signs.
var latin = &unicode.RangeTable{LatinOffset: 4, R16: []unicode.Range16{
	{Lo: 'A', Hi: 'Z', Stride: 1}, {Lo: 'a', Hi: 'z', Stride: 1}, {Lo: 'À', Hi: 'Ö', Stride: 1}, {Lo: 'Ø', Hi: 'ö', Stride: 1},
	{Lo: 'ø', Hi: 'ɏ', Stride: 1}, {Lo: 'Ḁ', Hi: 'ỿ', Stride: 1},
}}

func checkTitlePattern(s string) string {
	letters := 0
	for _, r := range s {
		if unicode.Is(latin, r) {
			letters++
		}
	}
	switch n := utf8.RuneCountInString(s); {
	case n < 2 || n > 200:
		return fmt.Sprintf("must have 2 to 200 characters, not %d", n)
	case !strings.Contains(s, "*"):
		return "must contain at least one *"
	case letters < 2:
		return "must contain at least two Latin letters"
	}
	return ""
}

func checkLanguage(s string) string {
	if slices.Contains(languages, s) {
		return ""
	}
	return fmt.Sprintf("must be an ISO 639-1 code such as en, not %q", clean(s))
}

func (f Field) wrong(end, code, message string) []FieldError {
	return []FieldError{{Path: f.Name + end, Code: code, Message: message}}
}

// languages are the two-letter codes of ISO 639-1, with sh, which it withdrew
// but which data still carries.
var languages = strings.Fields(`
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy
da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz
ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv
mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty
ug uk ur uz ve vi vo wa wo xh yi yo za zh zu`)
