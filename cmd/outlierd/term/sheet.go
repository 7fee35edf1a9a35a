package term

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"time"
	"unicode/utf16"

	"github.com/xuri/excelize/v2"
)

// What a sheet of Excel holds.
const (
	MaxSheetRows    = excelize.TotalRows - 1 // below the names of the columns
	MaxSheetColumns = excelize.MaxColumns
	MaxSheetText    = excelize.TotalCellChars // UTF-16 units in a cell
)

// exact is the largest whole number that Excel keeps: it has 15 digits.
const exact = 999_999_999_999_999

// firstDay is where the dates of Excel begin to be right: it has a 29 February 1900.
var firstDay = time.Date(1900, time.March, 1, 0, 0, 0, 0, time.UTC)

// A Sheet is an Excel workbook of one sheet, which takes rows of any number up to
// [MaxSheetRows]. Text is always text, never a formula. Rows wait on disk, in the system's
// folder for temporary files.
type Sheet struct {
	w      io.Writer
	zone   *time.Location
	book   *excelize.File
	stream *excelize.StreamWriter
	dates  map[int]bool
	row    int // the last one written, from 1

	bold, clock, day int // styles

	Cut int // cells whose text was too long
}

// NewSheet starts a workbook that [Sheet.Close] writes to w. Times are in the zone. The columns
// with indexes dates hold dates as "2006-01-02".
func NewSheet(w io.Writer, zone *time.Location, columns []string, dates []int) (*Sheet, error) {
	s := &Sheet{w: w, zone: zone, book: excelize.NewFile(), dates: map[int]bool{}}
	for _, i := range dates {
		s.dates[i] = true
	}
	if err := s.start(columns); err != nil {
		return nil, errors.Join(err, s.book.Close())
	}
	return s, nil
}

func (s *Sheet) start(columns []string) (err error) {
	if s.bold, err = s.book.NewStyle(&excelize.Style{Font: &excelize.Font{Bold: true}}); err != nil {
		return err
	}
	for format, style := range map[string]*int{"yyyy-mm-dd hh:mm:ss": &s.clock, "yyyy-mm-dd": &s.day} {
		if *style, err = s.book.NewStyle(&excelize.Style{CustomNumFmt: &format}); err != nil {
			return err
		}
	}
	if s.stream, err = s.book.NewStreamWriter("Sheet1"); err != nil {
		return err
	}
	if len(columns) > 0 {
		if err := s.stream.SetColWidth(1, len(columns), 20); err != nil {
			return err
		}
	}
	panes := excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"}
	if err := s.stream.SetPanes(&panes); err != nil {
		return err
	}
	header := make([]any, len(columns))
	for i, name := range columns {
		header[i] = excelize.Cell{StyleID: s.bold, Value: s.text(name)}
	}
	return s.write(header)
}

// Row adds a row; values are as a query returns them.
func (s *Sheet) Row(values []any) error {
	cells := make([]any, len(values))
	for i, v := range values {
		cells[i] = s.cell(v, s.dates[i])
	}
	return s.write(cells)
}

func (s *Sheet) write(cells []any) error {
	s.row++
	return s.stream.SetRow("A"+strconv.Itoa(s.row), cells)
}

// cell is a value as Excel takes it.
func (s *Sheet) cell(v any, date bool) any {
	switch v := v.(type) {
	case nil, bool, int8, int16, int32, uint8, uint16, uint32, float32, float64:
		return v
	case int64, uint64, *big.Int, json.Number:
		text := Raw(v)
		if f, err := strconv.ParseFloat(text, 64); err == nil && f >= -exact && f <= exact {
			return f
		}
		return text // a number would lose its last digits
	case time.Time:
		if s.zone != nil {
			v = v.In(s.zone)
		} else {
			v = v.UTC()
		}
		year, month, day := v.Date()
		wall := time.Date(year, month, day, v.Hour(), v.Minute(), v.Second(), v.Nanosecond(), time.UTC)
		if wall.Before(firstDay) {
			return s.text(Raw(v))
		}
		return excelize.Cell{StyleID: s.clock, Value: wall}
	case string:
		if day, err := time.Parse(time.DateOnly, v); date && err == nil && !day.Before(firstDay) {
			return excelize.Cell{StyleID: s.day, Value: day}
		}
	}
	return s.text(Raw(v))
}

// text is a text that fits into a cell.
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

// Close writes the workbook.
func (s *Sheet) Close() error {
	err := s.stream.Flush()
	if err == nil {
		err = s.book.Write(s.w)
	}
	return errors.Join(err, s.book.Close())
}

// Discard removes what waits on disk.
func (s *Sheet) Discard() error { return s.book.Close() }

// CheckSheet refuses a result that a sheet has no room for.
func CheckSheet(rows int64, columns int) error {
	if rows > MaxSheetRows || columns > MaxSheetColumns {
		return fmt.Errorf("the result has %s and %s; an Excel sheet has room for %d rows below the names of its %d columns: "+
			"export csv or parquet, or select less", Count(rows, "row"), Count(columns, "column"), MaxSheetRows, MaxSheetColumns)
	}
	return nil
}
