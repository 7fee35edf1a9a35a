package term

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io/fs"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	got, kinds := readRow(t, out.Bytes(), 2, len(values))
	want := []string{
		"=1+1", "123", "12", "-9007199254740993", "1208925819614629174706176", "1.5", "2.5", "1", "",
		"clock 46205.020833333336", "1850-01-01 00:00:00Z", "day 46204", `["a"]`, "_x005F_x0041_ <&>\n☕", strings.Repeat("é", MaxSheetText),
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

// readRow returns the texts and types of the first cells of a row, as ECMA-376 defines them. A formula is an error, and
// so is a part of the workbook that is not XML.
func readRow(t *testing.T, book []byte, row, cells int) (texts, kinds []string) {
	t.Helper()
	parts, err := zip.NewReader(bytes.NewReader(book), int64(len(book)))
	if err != nil {
		t.Fatal(err)
	}
	var sheet struct {
		Rows []struct {
			Number int `xml:"r,attr"`
			Cells  []struct {
				Name    string `xml:"r,attr"`
				Kind    string `xml:"t,attr"`
				Style   int    `xml:"s,attr"`
				Formula string `xml:"f"`
				Value   string `xml:"v"`
				Text    string `xml:"is>t"`
			} `xml:"c"`
		} `xml:"sheetData>row"`
	}
	for _, part := range parts.File {
		content, err := fs.ReadFile(parts, part.Name)
		if err != nil {
			t.Fatal(err)
		}
		into := any(&sheet)
		if !strings.HasPrefix(part.Name, "xl/worksheets/") {
			into = new(struct{})
		}
		if err := xml.Unmarshal(content, into); err != nil {
			t.Errorf("%s: %v", part.Name, err)
		}
	}
	texts, kinds = make([]string, cells), slices.Repeat([]string{"number"}, cells)
	for _, cell := range sheet.Rows[row-1].Cells {
		i := int(cell.Name[0] - 'A')
		texts[i] = map[int]string{clock: "clock ", day: "day "}[cell.Style] + cell.Value + cell.Text
		kinds[i] = map[string]string{"inlineStr": "text", "b": "bool", "": "number"}[cell.Kind]
		if cell.Formula != "" || cell.Name != fmt.Sprintf("%c%d", 'A'+i, row) {
			t.Errorf("cell %s has the formula %q", cell.Name, cell.Formula)
		}
	}
	return texts, kinds
}
