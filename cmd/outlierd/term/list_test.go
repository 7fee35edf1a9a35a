package term

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

// hostile are titles that people write to break programs.
var hostile = []string{
	"=HYPERLINK(\"http://x.invalid\",\"click\")", "+1+1", "-2", "@SUM(A1)", "\tcmd", "<script>alert(1)</script>", "a](http://x.invalid) [b", "| a | b |",
	"\u202eesrever", "line\nbreak", "", strings.Repeat("x", 5000), "&amp; ]]> \x1b[31m",
}

func list(t *testing.T, format string) []byte {
	t.Helper()
	var out bytes.Buffer
	columns := []string{"title", "views", "ratio", "link"}
	var p Printer
	var err error
	if format == "xlsx" {
		p, err = NewSheet(&out, time.UTC, columns, nil)
	} else {
		p, err = NewPrinter(format, &out, Options{Zone: time.UTC, Defuse: true}, columns)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, title := range hostile {
		address := fmt.Sprintf("https://video.example/watch?v=%d&a=b", i)
		if err := p.Row([]any{title, int64(1234567), 41.25, address}); err != nil {
			t.Fatal(err)
		}
	}
	for _, address := range []string{"javascript:alert(1)", "http://x.invalid", "https://x.invalid/> <b>", "file:///etc/passwd", ""} {
		if err := p.Row([]any{"elsewhere", nil, nil, address}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestListsDefuseHostileTitles(t *testing.T) {
	t.Parallel()
	csv := string(list(t, "csv"))
	for _, want := range []string{"\"'=HYPERLINK(", "\n'+1+1,", "\n'-2,", "\n'@SUM(A1),", "'\tcmd"} {
		if !strings.Contains(csv, want) {
			t.Errorf("csv has no %q", want)
		}
	}
	md := string(list(t, "md"))
	for _, want := range []string{
		`| a\](http://x.invalid) \[b | 1234567 | 41.25 | <https://video.example/watch?v=6&a=b> |`, `&lt;script>alert(1)`, `\| a \| b \|`,
		"| elsewhere |  |  | javascript:alert(1) |",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("md has no %q:\n%.2000s", want, md)
		}
	}
	if lines := strings.Count(md, "\n"); lines != 2+len(hostile)+5 {
		t.Errorf("md has %d lines", lines)
	}
	links := strings.Split(strings.TrimSpace(string(list(t, "links"))), "\n")
	if len(links) != len(hostile) || !slices.Contains(links, "https://video.example/watch?v=3&a=b") {
		t.Errorf("links are %q", links)
	}
}

func TestSheetHasLinksFiltersAndWidths(t *testing.T) {
	t.Parallel()
	book := list(t, "xlsx")
	texts, kinds := readRow(t, book, 2, 4)
	if want := []string{hostile[0], "1.234567e+06", "41.25", "https://video.example/watch?v=0&a=b"}; !slices.Equal(texts, want) || kinds[0] != "text" {
		t.Errorf("the first row is %q (%q), want %q", texts, kinds, want)
	}
	parts, err := zip.NewReader(bytes.NewReader(book), int64(len(book)))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := fs.ReadFile(parts, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	sheet, addresses := read("xl/worksheets/sheet1.xml"), read("xl/worksheets/_rels/sheet1.xml.rels")
	for _, want := range []string{
		`state="frozen"`, `<autoFilter ref="A1:D19"/>`, `<hyperlink ref="D2" r:id="rId1"/>`, `<hyperlink ref="D3" r:id="rId2"/>`,
		`<col min="1" max="1" width="60" customWidth="1"/><col min="2" max="2" width="11" customWidth="1"/>`,
		fmt.Sprintf(`<c r="B2" s="%d"><v>1.234567e+06</v>`, whole), fmt.Sprintf(`<c r="C2" s="%d"><v>41.25</v>`, fraction),
	} {
		if !strings.Contains(sheet, want) {
			t.Errorf("the sheet has no %s", want)
		}
	}
	if n := strings.Count(addresses, "<Relationship "); n != len(hostile) || strings.Count(addresses, "https://video.example/") != n {
		t.Errorf("%d links:\n%s", n, addresses)
	}
	if !strings.Contains(read("xl/workbook.xml"), "Sheet1!$A$1:$D$19") {
		t.Error("the workbook does not name the filtered cells")
	}
}
