package outlier

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The codes of errors that this package detects. Codes of the service are not shown.
const (
	codeEnum     = "enum"     // not one of the allowed values
	codePattern  = "pattern"  // wrong form
	codeBounds   = "bounds"   // too small or too large
	codeOrder    = "order"    // From is above To: would be charged, and is always empty
	codeRequired = "required" // missing
	CodeUnknown  = "unknown"  // not a parameter of the operation
)

// Check checks the values of one parameter in the form in which they are sent (interface, Endpoints and
// Common filters). A missing value is an error only if the parameter is required. The Path of an error is
// the name on the wire: "viewCountTo".
func (p Param) Check(params url.Values) []FieldError {
	switch p.Form {
	case Texts:
		return p.checkTexts(params[p.Name])
	case Integers, Numbers, Instants:
		return p.checkRange(params)
	}
	values, given := params[p.Name]
	switch {
	case !given:
		return nil
	case len(values) != 1:
		return p.fieldErrors("", codePattern, fmt.Sprintf("must have one value, not %d", len(values)))
	case p.Form == Flag && values[0] != "true" && values[0] != "false":
		return p.fieldErrors("", codePattern, fmt.Sprintf("must be true or false, not %q", cleanLine(values[0])))
	case p.Form == Flag:
		return nil
	case p.Form == Count:
		return p.checkCount(values[0])
	}
	return p.checkText(values[0])
}

func (p Param) checkTexts(list []string) []FieldError {
	if p.required && len(list) == 0 {
		return p.fieldErrors("", codeRequired, "is missing; give at least one")
	}
	var all []FieldError
	for _, s := range list {
		all = append(all, p.checkText(s)...)
	}
	return all
}

// CheckText checks a text, or one element of a list of texts, and returns what is wrong with it; "" if it
// is valid.
func (p Param) CheckText(s string) string {
	for _, e := range p.checkText(s) {
		return e.Message
	}
	return ""
}

func (p Param) checkText(s string) []FieldError {
	switch {
	case !utf8.ValidString(s):
		return p.fieldErrors("", codePattern, "is not valid UTF-8")
	case strings.TrimSpace(s) == "":
		return p.fieldErrors("", codePattern, "is empty")
	case len(p.OneOf) > 0 && !slices.Contains(p.OneOf, s):
		message := fmt.Sprintf("must be one of %s, not %q", strings.Join(p.OneOf, ", "), cleanLine(s))
		return p.fieldErrors("", codeEnum, message)
	case p.text != nil:
		if problem := p.text(s); problem != "" {
			return p.fieldErrors("", codePattern, problem)
		}
	}
	return nil
}

// parseEnd parses the end of a range of a form. It returns the value, a time in Unix seconds, and its canonical text.
func (f Form) parseEnd(text string) (x float64, canonical string, err error) {
	switch f {
	case Integers:
		n, err := strconv.ParseInt(text, 10, 64)
		return float64(n), Integer(n), err
	case Numbers:
		x, err := strconv.ParseFloat(text, 64)
		return x, Number(x), err
	}
	t, err := time.Parse(time.RFC3339, text)
	return float64(t.Unix()), Instant(t), err
}

// endWords are what messages call the end of a range.
var endWords = map[Form]string{
	Integers: "a whole number in digits", Numbers: "a number such as 2 or 0.5", Instants: "a time such as 2026-10-31T18:00:00Z",
}

// readEnds returns the ends of a range, nil for one that is missing or wrong. It accepts only the canonical form, so
// that equal requests have equal identities.
func (p Param) readEnds(params url.Values) (ends [2]*float64, wrong []FieldError) {
	for i, name := range p.Names() {
		values, given := params[name]
		if !given {
			continue
		}
		if len(values) != 1 {
			wrong = append(wrong, FieldError{name, codePattern, fmt.Sprintf("must have one value, not %d", len(values))})
			continue
		}
		x, canonical, err := p.Form.parseEnd(values[0])
		if err != nil || canonical != values[0] {
			message := fmt.Sprintf("must be %s, not %q", endWords[p.Form], cleanLine(values[0]))
			wrong = append(wrong, FieldError{name, codePattern, message})
			continue
		}
		ends[i] = &x
		if problem := p.exceededBound(x, i == 1); problem != "" {
			wrong = append(wrong, FieldError{name, codeBounds, problem + ", not " + canonical})
		}
	}
	return ends, wrong
}

// exceededBound returns the bound that the end of a range exceeds; "" for none.
func (p Param) exceededBound(x float64, isTo bool) string {
	most := p.max
	if most > 0 && !isTo {
		most = maxInteger // whatever the maximum of To is
	}
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return "must be a finite number"
	case p.positive && isTo && x <= 0:
		return "must be above 0"
	case p.positive && x < 0:
		return "must be 0 or more"
	case most > 0 && x > float64(most):
		return fmt.Sprintf("must be at most %d", most)
	}
	return ""
}

// checkRange checks both ends of a range, and then their order. The interface allows From above To, but
// the answer would be empty and cost the same.
func (p Param) checkRange(params url.Values) []FieldError {
	ends, wrong := p.readEnds(params)
	if len(wrong) == 0 && ends[0] != nil && ends[1] != nil && *ends[0] > *ends[1] {
		return p.fieldErrors("From", codeOrder, "must not be above "+p.Name+"To")
	}
	return wrong
}

func (p Param) checkCount(text string) []FieldError {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < p.min || n > p.max || Integer(n) != text {
		return p.fieldErrors("", codeBounds, fmt.Sprintf("must be %d to %d, not %s", p.min, p.max, cleanLine(text)))
	}
	return nil
}

// checkChannelID checks that s has the form of channel ids in paths. The interface has no rule for
// channel ids in parameters.
func checkChannelID(s string) string {
	if channelID.MatchString(s) {
		return ""
	}
	return fmt.Sprintf("must be a channel id, 24 letters, digits, - or _, not %q", cleanLine(s))
}

// checkVideoID checks that s has the form of video ids. The interface has this rule for one parameter,
// thumbnailVideoId.
func checkVideoID(s string) string {
	if videoID.MatchString(s) {
		return ""
	}
	return fmt.Sprintf("must be a video id, 11 letters, digits, - or _, not %q", cleanLine(s))
}

// latin has the letters of which a title pattern needs at least two, including accented ones. Unicode's
// table Latin has more, which the interface does not mention: numerals such as Ⅳ, full-width forms and
// phonetic signs.
var latin = &unicode.RangeTable{LatinOffset: 4, R16: []unicode.Range16{
	{Lo: 'A', Hi: 'Z', Stride: 1}, {Lo: 'a', Hi: 'z', Stride: 1}, {Lo: 'À', Hi: 'Ö', Stride: 1},
	{Lo: 'Ø', Hi: 'ö', Stride: 1},
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
	return fmt.Sprintf("must be an ISO 639-1 code such as en, not %q", cleanLine(s))
}

func (p Param) fieldErrors(end, code, message string) []FieldError {
	return []FieldError{{Path: p.Name + end, Code: code, Message: message}}
}

// languages has the two-letter codes of ISO 639-1, and sh, which was withdrawn but still occurs in data.
var languages = strings.Fields(`
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy
da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz
ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv
mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu
rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty
ug uk ur uz ve vi vo wa wo xh yi yo za zh zu`)
