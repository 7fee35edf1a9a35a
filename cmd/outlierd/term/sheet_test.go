package term

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/xuri/excelize/v2"
)

// TestSheetKeepsValues: texts do not become formulas, times are local times of the zone, and no digit is lost.
func TestSheetKeepsValues(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	values := []any{
		"=1+1", "123", int64(12), int64(-9007199254740993), new(big.Int).Lsh(big.NewInt(1), 80), json.Number("1.50"), 2.5, true, nil,
		time.Date(2026, 7, 1, 22, 30, 0, 0, time.UTC), time.Date(1850, 1, 1, 0, 0, 0, 0, time.UTC), "2026-07-01",
		[]any{"a"}, "_x0041_ <&>\n☕", strings.Repeat("é", MaxSheetText+1),
	}
	var out bytes.Buffer
	columns := make([]string, len(values))
	sheet, err := NewSheet(&out, berlin, columns, []int{11})
	if err != nil {
		t.Fatal(err)
	}
	if err := sheet.Row(values); err != nil {
		t.Fatal(err)
	}
	if err := sheet.Close(); err != nil {
		t.Fatal(err)
	}
	book, err := excelize.OpenReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	var got, kinds []string
	for i := range values {
		name, err := excelize.CoordinatesToCellName(i+1, 2)
		if err != nil {
			t.Fatal(err)
		}
		if formula, err := book.GetCellFormula("Sheet1", name); formula != "" || err != nil {
			t.Errorf("%s has the formula %q (%v)", name, formula, err)
		}
		text, err := book.GetCellValue("Sheet1", name)
		if err != nil {
			t.Fatal(err)
		}
		kind, err := book.GetCellType("Sheet1", name)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
		kinds = append(kinds, map[excelize.CellType]string{
			excelize.CellTypeInlineString: "text", excelize.CellTypeBool: "bool", excelize.CellTypeUnset: "number",
		}[kind])
	}
	want := []string{
		"=1+1", "123", "12", "-9007199254740993", "1208925819614629174706176", "1.5", "2.5", "TRUE", "",
		"2026-07-02 00:30:00", "1850-01-01 00:00:00Z", "2026-07-01", `["a"]`, "_x0041_ <&>\n☕", strings.Repeat("é", MaxSheetText),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	wantKinds := strings.Fields("text text number text text number number bool number number text number text text text")
	if diff := cmp.Diff(wantKinds, kinds); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	if sheet.Cut != 1 {
		t.Errorf("%d texts were cut, want 1", sheet.Cut)
	}
}

// TestParquetOfRows: the first page determines the types, and later values of other types are refused.
func TestParquetOfRows(t *testing.T) {
	print := func(rows ...[]any) error {
		p, err := NewPrinter("parquet", &bytes.Buffer{}, Options{}, []string{"v"})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := p.Row(row); err != nil {
				return err
			}
		}
		return p.Close()
	}
	page := make([][]any, parquetPage)
	for i := range page {
		page[i] = []any{int64(i)}
	}
	for name, c := range map[string]struct {
		rows [][]any
		want string
	}{
		"no rows":    {nil, ""},
		"mixed":      {[][]any{{int64(1)}, {"a"}, {nil}, {[]any{"x"}}}, ""},
		"second":     {append(page, []any{int64(7)}, []any{nil}), ""},
		"late text":  {append(page, []any{"a"}), `print column v: int64 came first and then "a"`},
		"late large": {append(page, []any{new(big.Int).Lsh(big.NewInt(1), 80)}), "int64 came first"},
	} {
		err := print(c.rows...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
