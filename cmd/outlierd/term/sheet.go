package term

import (
	"archive/zip"
	"bufio"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
)

// Limits of an Excel sheet.
const (
	MaxSheetRows    = 1<<20 - 1 // below the names of the columns
	MaxSheetColumns = 1 << 14
	MaxSheetText    = 1<<15 - 1 // UTF-16 units in a cell
	maxLinks        = 65_530    // the links after them are texts
)

// exact is the largest whole number that Excel stores exactly: 15 digits.
const exact = 999_999_999_999_999

// Dates are days since dayZero. They are correct from firstDay on, because Excel has a 29 February
// 1900.
var (
	dayZero  = time.Date(1899, time.December, 30, 0, 0, 0, 0, time.UTC)
	firstDay = time.Date(1900, time.March, 1, 0, 0, 0, 0, time.UTC)
)

// measured is the number of rows whose texts determine the widths of columns, and widestColumn a limit.
const (
	measured     = 200
	widestColumn = 60
)

// A Sheet is an Excel workbook of one sheet, of up to [MaxSheetRows] rows, of which it keeps only the first ones and
// the addresses of links in memory. Text is always text, never a formula. The first row stays in view, and has filters.
// An address in a column that is named link or url is a hyperlink.
//
// It writes the few parts of a workbook itself (ECMA-376). The library excelize takes three minutes and 170 MB for 65,000
// rows with links, because it looks for each link among all others.
type Sheet struct {
	book    *zip.Writer
	rows    *bufio.Writer
	zone    *time.Location
	columns []string
	dates   map[int]bool
	first   [][]cell // rows that are not written yet, because the widths come before them
	begun   bool
	row     int         // the last one written, from 1
	links   [][2]string // cells and their addresses

	Cut int // cells whose text was too long
}

// Indexes of the styles in styles.xml.
const (
	bold = 1 + iota
	clock
	day
	whole
	fraction
	linked
)

const office = `"http://schemas.openxmlformats.org/officeDocument/2006/relationships`

// parts are the files of a workbook that are always the same.
var parts = [][2]string{
	{"[Content_Types].xml", `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>
<Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/>
<Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>
</Types>`},
	{"_rels/.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Type=` + office + `/officeDocument" Target="xl/workbook.xml"/>
</Relationships>`},
	{"xl/_rels/workbook.xml.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Type=` + office + `/worksheet" Target="worksheets/sheet1.xml"/>
<Relationship Id="rId2" Type=` + office + `/styles" Target="styles.xml"/>
</Relationships>`},
	{"xl/styles.xml", `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">
<numFmts count="3"><numFmt numFmtId="164" formatCode="yyyy-mm-dd hh:mm:ss"/><numFmt numFmtId="165" formatCode="yyyy-mm-dd"/><numFmt numFmtId="166" formatCode="#,##0.0##"/></numFmts>
<fonts count="3"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font>
<font><u/><sz val="11"/><color rgb="FF0563C1"/><name val="Calibri"/></font></fonts>
<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>
<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>
<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>
<cellXfs count="7"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>
<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/>
<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>
<xf numFmtId="165" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>
<xf numFmtId="3" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>
<xf numFmtId="166" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>
<xf numFmtId="0" fontId="2" fillId="0" borderId="0" xfId="0" applyFont="1"/></cellXfs>
<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>
</styleSheet>`},
}

// NewSheet starts a workbook in w, which [Sheet.Close] completes. Times are written in the zone. The
// columns with the indexes in dates contain dates in the form "2006-01-02".
func NewSheet(w io.Writer, zone *time.Location, columns []string, dates []int) (*Sheet, error) {
	s := &Sheet{book: zip.NewWriter(w), zone: zone, columns: columns, dates: map[int]bool{}}
	for _, i := range dates {
		s.dates[i] = true
	}
	for _, part := range parts {
		if err := s.addFile(part[0], part[1]); err != nil {
			return nil, err
		}
	}
	file, err := s.book.Create("xl/worksheets/sheet1.xml")
	if err != nil {
		return nil, err
	}
	s.rows = bufio.NewWriter(file)
	return s, nil
}

// Row adds a row; values are as a query returns them.
func (s *Sheet) Row(values []any) error {
	row := make([]cell, len(values))
	for i, v := range values {
		row[i] = s.cellOf(i, v)
	}
	if s.begun {
		return s.writeRow(row)
	}
	if s.first = append(s.first, row); len(s.first) < measured {
		return nil
	}
	return s.beginRows()
}

// beginRows writes what comes before the rows, and those that came so far.
func (s *Sheet) beginRows() error {
	s.begun = true
	header := make([]cell, len(s.columns))
	for i, name := range s.columns {
		header[i] = cell{style: bold, value: s.cutText(name)}
	}
	s.rows.WriteString(xml.Header + `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r=` + office + `">
<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>
`)
	if len(header) > 0 {
		s.rows.WriteString("<cols>")
		for i := range header {
			width := header[i].width() + 3 // with the button of the filter
			for _, row := range s.first {
				width = max(width, row[i].width())
			}
			fmt.Fprintf(s.rows, `<col min="%[1]d" max="%[1]d" width="%[2]d" customWidth="1"/>`, i+1, min(width+2, widestColumn))
		}
		s.rows.WriteString("</cols>\n")
	}
	s.rows.WriteString("<sheetData>\n")
	err := s.writeRow(header)
	for _, row := range s.first {
		err = errors.Join(err, s.writeRow(row))
	}
	s.first = nil
	return err
}

// cell has a nil, a bool, a float64 or a string.
type cell struct {
	style   int
	value   any
	address string // that it leads to
}

// width returns the width of a cell in letters, about.
func (c cell) width() int {
	switch v := c.value.(type) {
	case string:
		line, _, _ := strings.Cut(v, "\n")
		return Width(line)
	case float64:
		switch digits := len(strconv.FormatFloat(v, 'f', 0, 64)); c.style {
		case clock:
			return len("2006-01-02 15:04:05")
		case day:
			return len("2006-01-02")
		case fraction:
			return digits + digits/3 + len(".000")
		default:
			return digits + digits/3
		}
	}
	return len("false")
}

func (s *Sheet) writeRow(row []cell) error {
	s.row++
	fmt.Fprintf(s.rows, `<row r="%d">`, s.row)
	for i, c := range row {
		if c.value == nil {
			continue
		}
		place := fmt.Sprintf("%s%d", columnName(i), s.row)
		if c.address != "" && len(s.links) < maxLinks {
			s.links = append(s.links, [2]string{place, c.address})
			c.style = linked
		}
		fmt.Fprintf(s.rows, `<c r="%s"`, place)
		if c.style > 0 {
			fmt.Fprintf(s.rows, ` s="%d"`, c.style)
		}
		switch v := c.value.(type) {
		case bool:
			fmt.Fprintf(s.rows, ` t="b"><v>%d</v></c>`, map[bool]int{true: 1}[v])
		case float64:
			fmt.Fprintf(s.rows, `><v>%s</v></c>`, strconv.FormatFloat(v, 'g', -1, 64))
		case string:
			s.rows.WriteString(` t="inlineStr"><is><t xml:space="preserve">`)
			xml.EscapeText(s.rows, []byte(escapeText(v))) // an error stays with the writer
			s.rows.WriteString(`</t></is></c>`)
		}
	}
	_, err := s.rows.WriteString("</row>\n")
	return err
}

// columnName returns the name of a column: A to XFD.
func columnName(i int) (name string) {
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('A'+(i-1)%26)) + name
	}
	return name
}

// escaped matches text that Excel interprets as a character code.
var escaped = regexp.MustCompile(`_x[0-9A-Fa-f]{4}_`)

// escapeText keeps text unchanged: `_x0041_` would be shown as A, and characters that XML does not allow
// would be lost.
func escapeText(text string) string {
	if strings.Contains(text, "_x") {
		text = escaped.ReplaceAllString(text, "_x005F$0")
	}
	return text
}

// cellOf converts a value of a column to the form that Excel stores.
func (s *Sheet) cellOf(i int, v any) cell {
	switch v := v.(type) {
	case nil, bool:
		return cell{value: v}
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, *big.Int, json.Number:
		text := Raw(v)
		f, err := strconv.ParseFloat(text, 64)
		_, double := v.(float64)
		_, single := v.(float32)
		finite := err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
		if finite && (double || single || f >= -exact && f <= exact) {
			return cell{value: f, style: numberStyle(f)}
		}
		return cell{value: text} // a number would lose its last digits
	case time.Time:
		if s.zone != nil {
			v = v.In(s.zone)
		} else {
			v = v.UTC()
		}
		year, month, date := v.Date()
		wall := time.Date(year, month, date, v.Hour(), v.Minute(), v.Second(), v.Nanosecond(), time.UTC)
		if wall.Before(firstDay) {
			return cell{value: s.cutText(Raw(v))}
		}
		return cell{style: clock, value: excelDays(wall)}
	case string:
		if at, err := time.Parse(time.DateOnly, v); s.dates[i] && err == nil && !at.Before(firstDay) {
			return cell{style: day, value: excelDays(at)}
		}
		if isLink(s.columns[i]) {
			return cell{value: s.cutText(v), address: webAddress(v)}
		}
	}
	return cell{value: s.cutText(Raw(v))}
}

// numberStyle returns the style of a number: large ones have separators, which years do not need.
func numberStyle(f float64) int {
	switch size := math.Abs(f); {
	case f == math.Trunc(f) && size >= 10_000:
		return whole
	case f != math.Trunc(f) && size >= 0.001:
		return fraction
	}
	return 0
}

func excelDays(t time.Time) float64 {
	return float64(t.Unix()-dayZero.Unix())/86400 + float64(t.Nanosecond())/86400e9
}

// cutText cuts a text to fit into a cell.
func (s *Sheet) cutText(text string) string {
	if len(text) <= MaxSheetText {
		return text
	}
	units := 0
	for i, r := range text {
		if units += utf16.RuneLen(r); units > MaxSheetText {
			s.Cut++
			return text[:i]
		}
	}
	return text
}

// Close writes the end of the workbook.
func (s *Sheet) Close() error {
	var err error
	if !s.begun {
		err = s.beginRows()
	}
	s.rows.WriteString("</sheetData>\n")
	filter := ""
	if last := len(s.columns) - 1; last >= 0 {
		fmt.Fprintf(s.rows, `<autoFilter ref="A1:%s%d"/>`+"\n", columnName(last), s.row)
		filter = fmt.Sprintf(`<definedNames><definedName name="_xlnm._FilterDatabase" localSheetId="0" hidden="1">`+
			"Sheet1!$A$1:$%s$%d</definedName></definedNames>\n", columnName(last), s.row)
	}
	if len(s.links) > 0 {
		s.rows.WriteString("<hyperlinks>")
		for i, link := range s.links {
			fmt.Fprintf(s.rows, `<hyperlink ref="%s" r:id="rId%d"/>`, link[0], i+1)
		}
		s.rows.WriteString("</hyperlinks>\n")
	}
	s.rows.WriteString("</worksheet>\n")
	if err := errors.Join(err, s.rows.Flush()); err != nil {
		return err
	}
	workbook := `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r=` + office + `">
<sheets><sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets>
` + filter + `</workbook>`
	return errors.Join(s.writeAddresses(), s.addFile("xl/workbook.xml", workbook), s.book.Close())
}

// addFile adds a file to the workbook.
func (s *Sheet) addFile(name, content string) error {
	file, err := s.book.Create(name)
	if err == nil {
		_, err = io.WriteString(file, xml.Header+content)
	}
	return err
}

// writeAddresses writes the addresses of links, which are in a file of their own.
func (s *Sheet) writeAddresses() error {
	if len(s.links) == 0 {
		return nil
	}
	file, err := s.book.Create("xl/worksheets/_rels/sheet1.xml.rels")
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	out.WriteString(xml.Header + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` + "\n")
	for i, link := range s.links {
		fmt.Fprintf(out, `<Relationship Id="rId%d" Type=%s/hyperlink" TargetMode="External" Target="`, i+1, office)
		xml.EscapeText(out, []byte(link[1])) // an error stays with the writer
		out.WriteString(`"/>` + "\n")
	}
	out.WriteString("</Relationships>\n")
	return out.Flush()
}

// CheckSheet refuses a result that does not fit into a sheet.
func CheckSheet(rows int64, columns int) error {
	if rows > MaxSheetRows || columns > MaxSheetColumns {
		return fmt.Errorf("the result has %s and %s; an Excel sheet has room for %d rows below the names of its %d columns: "+
			"export csv or parquet, or select less", Count(rows, "row"), Count(columns, "column"), MaxSheetRows, MaxSheetColumns)
	}
	return nil
}
