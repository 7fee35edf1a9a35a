package term

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTablesFitTheScreen: no line is wider than the screen, whatever the cells are; numbers, times
// and ids are shown whole, and the number of hidden columns is shown.
func TestTablesFitTheScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		screen := rapid.IntRange(1, 160).Draw(t, "screen")
		cell := rapid.OneOf(
			rapid.StringOf(rapid.RuneFrom([]rune("ab コ☕é\u0301\x1b"))).AsAny(), rapid.Int64().AsAny(), rapid.Just[any](nil),
			rapid.Just[any](time.Unix(1e9, 0)), rapid.StringMatching(`[a-z]{0,90}`).AsAny())
		columns := rapid.SliceOfN(rapid.StringMatching(`[a-z_]{1,30}`), 1, 9).Draw(t, "columns")
		var out bytes.Buffer
		p := NewTable(&out, Options{Screen: screen, Zone: time.UTC}, columns)
		rows := rapid.IntRange(0, 4).Draw(t, "rows")
		for range rows {
			if err := p.Row(rapid.SliceOfN(cell, len(columns), len(columns)).Draw(t, "row")); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, line := range lines[:2+rows] {
			if Width(line) > screen || strings.ContainsFunc(line, isUnsafe) {
				t.Errorf("%d columns on a screen of %d: %q", Width(line), screen, line)
			}
		}
		hidden := len(columns) - len(p.widths)
		if noted := strings.Contains(out.String(), " more: --wide or -o line)\n"); noted != (hidden > 0) {
			t.Errorf("%d columns are hidden, noted: %t:\n%s", hidden, noted, out.String())
		}
	})
}

func TestTableFillsScreenWidth(t *testing.T) {
	row := []any{"How I pulled the best espresso of my whole life", int64(1862364), 4.6654, "https://youtu.be/RgxXy05h_F0", "AI Tools Explained", time.Unix(1e9, 0)}
	columns := []string{"title", "view_count", "z_score", "link", "channel_title", "published_at"}
	for _, test := range []struct {
		look Options
		want string
	}{
		{Options{Screen: 80, Zone: time.UTC}, "" +
			"title                          view_count  z_score  link\n" +
			"─────────────────────────────  ──────────  ───────  ────────────────────────────\n" +
			"How I pulled the best espres…     1862364   4.6654  https://youtu.be/RgxXy05h_F0\n" +
			"(2 columns more: --wide or -o line)\n"},
		{Options{Screen: 80, Wide: true, Zone: time.FixedZone("CET", 3600)}, "" +
			"title                                            view_count  z_score  link                          channel_title       published_at\n" +
			"───────────────────────────────────────────────  ──────────  ───────  ────────────────────────────  ──────────────────  ───────────────────────\n" +
			"How I pulled the best espresso of my whole life     1862364   4.6654  https://youtu.be/RgxXy05h_F0  AI Tools Explained  2001-09-09 02:46:40 CET\n"},
	} {
		var out bytes.Buffer
		p := NewTable(&out, test.look, columns)
		if err := errors.Join(p.Row(row), p.Close()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, out.String()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.look, diff)
		}
	}
}

// TestLongTablesKeepTheirColumns: the columns of later pages are aligned with those of the first.
func TestLongTablesKeepTheirColumns(t *testing.T) {
	var out bytes.Buffer
	p := NewTable(&out, Options{Screen: 80, Zone: time.UTC}, []string{"a", "b"})
	for i := range 2*tablePage + 1 {
		if err := p.Row([]any{strings.Repeat("x y", 40), int64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range map[int]string{0: "…    0", 999: "…  999", 1000: "…  1000", 2000: "…  2000"} {
		if line := lines[2+i]; !strings.HasSuffix(line, want) || Width(line) > DefaultScreen {
			t.Errorf("row %d is %q, want %q at its end", i, line, want)
		}
	}
	if lines[3+2*tablePage] != "(2001 rows)" {
		t.Errorf("the last line is %q, want (2001 rows)", lines[3+2*tablePage])
	}
}
