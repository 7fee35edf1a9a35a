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
)

// exact is the largest whole number that Excel stores exactly: 15 digits.
const exact = 999_999_999_999_999

// Dates are days since dayZero. They are correct from firstDay on, because Excel has a 29 February
// 1900.
var (
	dayZero  = time.Date(1899, time.December, 30, 0, 0, 0, 0, time.UTC)
	firstDay = time.Date(1900, time.March, 1, 0, 0, 0, 0, time.UTC)
)

// A Sheet is an Excel workbook of one sheet, of up to [MaxSheetRows] rows, none of which are kept in
// memory. Text is always text, never a formula.
//
// It writes the few parts of a workbook itself (ECMA-376): libraries for workbooks made the program 5
// MB larger.
type Sheet struct {
	book  *zip.Writer
	rows  *bufio.Writer
	zone  *time.Location
	dates map[int]bool
	row   int // the last one written, from 1

	Cut int // cells whose text was too long
}

// Indexes of the styles in styles.xml.
const (
	bold = 1 + iota
	clock
	day
)

const office = `"http://schemas.openxmlformats.org/officeDocument/2006/relationships`

// parts are all files of a workbook except its rows.
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
	{"xl/workbook.xml", `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r=` + office + `">
<sheets><sheet name="Sheet1" sheetId="1" r:id="rId1"/></sheets>
</workbook>`},
	{"xl/_rels/workbook.xml.rels", `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Type=` + office + `/worksheet" Target="worksheets/sheet1.xml"/>
<Relationship Id="rId2" Type=` + office + `/styles" Target="styles.xml"/>
</Relationships>`},
	{"xl/styles.xml", `<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">
<numFmts count="2"><numFmt numFmtId="164" formatCode="yyyy-mm-dd hh:mm:ss"/><numFmt numFmtId="165" formatCode="yyyy-mm-dd"/></numFmts>
<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts>
<fills count="2"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill></fills>
<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>
<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>
<cellXfs count="4"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>
<xf numFmtId="0" fontId="1" fillId="0" borderId="0" xfId="0" applyFont="1"/>
<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>
<xf numFmtId="165" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/></cellXfs>
<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>
</styleSheet>`},
}

// NewSheet starts a workbook in w, which [Sheet.Close] completes. Times are written in the zone. The
// columns with the indexes in dates contain dates in the form "2006-01-02".
func NewSheet(w io.Writer, zone *time.Location, columns []string, dates []int) (*Sheet, error) {
	s := &Sheet{book: zip.NewWriter(w), zone: zone, dates: map[int]bool{}}
	for _, i := range dates {
		s.dates[i] = true
	}
	for _, part := range parts {
		file, err := s.book.Create(part[0])
		if err == nil {
			_, err = io.WriteString(file, xml.Header+part[1])
		}
		if err != nil {
			return nil, err
		}
	}
	file, err := s.book.Create("xl/worksheets/sheet1.xml")
	if err != nil {
		return nil, err
	}
	s.rows = bufio.NewWriter(file)
	s.rows.WriteString(xml.Header + `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">
<sheetViews><sheetView workbookViewId="0"><pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>
`)
	if len(columns) > 0 {
		fmt.Fprintf(s.rows, `<cols><col min="1" max="%d" width="20" customWidth="1"/></cols>`+"\n", len(columns))
	}
	s.rows.WriteString("<sheetData>\n")
	return s, s.write(len(columns), func(i int) cell { return cell{bold, s.text(columns[i])} })
}

// Row adds a row; values are as a query returns them.
func (s *Sheet) Row(values []any) error {
	return s.write(len(values), func(i int) cell { return s.cell(values[i], s.dates[i]) })
}

// cell has a nil, a bool, a float64 or a string.
type cell struct {
	style int
	value any
}

func (s *Sheet) write(count int, at func(i int) cell) error {
	s.row++
	fmt.Fprintf(s.rows, `<row r="%d">`, s.row)
	for i := range count {
		c := at(i)
		if c.value == nil {
			continue
		}
		fmt.Fprintf(s.rows, `<c r="%s%d"`, column(i), s.row)
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
			xml.EscapeText(s.rows, []byte(escape(v))) // an error stays with the writer
			s.rows.WriteString(`</t></is></c>`)
		}
	}
	_, err := s.rows.WriteString("</row>\n")
	return err
}

// column returns the name of a column: A to XFD.
func column(i int) (name string) {
	for i++; i > 0; i = (i - 1) / 26 {
		name = string(rune('A'+(i-1)%26)) + name
	}
	return name
}

// escaped matches text that Excel interprets as a character code.
var escaped = regexp.MustCompile(`_x[0-9A-Fa-f]{4}_`)

// escape keeps text unchanged: `_x0041_` would be shown as A, and characters that XML does not allow
// would be lost.
func escape(text string) string {
	if strings.Contains(text, "_x") {
		text = escaped.ReplaceAllString(text, "_x005F$0")
	}
	return text
}

// cell converts a value to the form that Excel stores.
func (s *Sheet) cell(v any, date bool) cell {
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
			return cell{value: f}
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
			return cell{value: s.text(Raw(v))}
		}
		return cell{clock, days(wall)}
	case string:
		if at, err := time.Parse(time.DateOnly, v); date && err == nil && !at.Before(firstDay) {
			return cell{day, days(at)}
		}
	}
	return cell{value: s.text(Raw(v))}
}

func days(t time.Time) float64 {
	return float64(t.Unix()-dayZero.Unix())/86400 + float64(t.Nanosecond())/86400e9
}

// text cuts a text to fit into a cell.
func (s *Sheet) text(text string) string {
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
	_, err := s.rows.WriteString("</sheetData>\n</worksheet>\n")
	return errors.Join(err, s.rows.Flush(), s.book.Close())
}

// CheckSheet refuses a result that does not fit into a sheet.
func CheckSheet(rows int64, columns int) error {
	if rows > MaxSheetRows || columns > MaxSheetColumns {
		return fmt.Errorf("the result has %s and %s; an Excel sheet has room for %d rows below the names of its %d columns: "+
			"export csv or parquet, or select less", Count(rows, "row"), Count(columns, "column"), MaxSheetRows, MaxSheetColumns)
	}
	return nil
}
