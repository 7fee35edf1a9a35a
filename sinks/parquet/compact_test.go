package parquet

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"outlierd/schema"
	"outlierd/sinks/sinktest"
)

// sample is a journal for two tables of several parts a day, of two days.
func sample() sinktest.Journal {
	return sinktest.Sample(20).Only(schema.OutliersHistory, schema.TranscriptEvents)
}

// written is a sink whose folder has the whole journal, an answer a batch, and was published once.
func written(t *testing.T, j sinktest.Journal) (*Sink, string) {
	t.Helper()
	dir := t.TempDir()
	s := openSink(t, dir)
	t.Cleanup(func() { s.Close() })
	writeUpTo(t, s, j, int64(len(j)))
	return s, dir
}

func writeUpTo(t *testing.T, s *Sink, j sinktest.Journal, hi int64) {
	t.Helper()
	lo, err := s.Watermark(t.Context())
	for ; err == nil && lo < hi; lo++ {
		b := j.Batch(lo, lo+1)
		err = s.Write(t.Context(), b)
		sinktest.Release(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func publish(t *testing.T, s *Sink) {
	t.Helper()
	if err := publishRuns(t, s, s.state.Watermark); err != nil {
		t.Fatal(err)
	}
}

// partsOf are the parts in each day's folder of a table.
func partsOf(t *testing.T, dir string, table *schema.Table) map[string][]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, table.FileName(), "date=*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	days := map[string][]string{}
	for _, name := range names {
		day := filepath.Base(filepath.Dir(name))
		days[day] = append(days[day], filepath.Base(name))
	}
	return days
}

// asListed checks that the manifest names what is there, and nothing else, as it is.
func asListed(t *testing.T, dir string) {
	t.Helper()
	tables := slices.Concat(sinktest.Tables(), sinktest.Ops())
	f, err := Look(t.Context(), dir, "", tables)
	if err != nil {
		t.Fatal(err)
	}
	damaged, err := f.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if problems := append(f.Problems, damaged...); len(problems) > 0 {
		t.Errorf("%q", problems)
	}
	for name, listed := range f.listed {
		if isPending(path.Base(name)) {
			continue
		}
		content, err := file.OpenParquetFile(filepath.Join(dir, name), false)
		if err != nil {
			t.Fatal(err)
		}
		if content.NumRows() != listed.Rows {
			t.Errorf("%s has %d rows, listed are %d", name, content.NumRows(), listed.Rows)
		}
		content.Close()
	}
}

func TestDayThatIsOverBecomesOnePart(t *testing.T) {
	j := sample()
	s, dir := written(t, j)
	if days := partsOf(t, dir, schema.OutliersHistory); len(days) != 2 || len(days["date=2026-03-01"]) < 2 {
		t.Fatalf("before: %v", days)
	}
	publish(t, s)
	for _, table := range []*schema.Table{schema.OutliersHistory, schema.TranscriptEvents} {
		days := partsOf(t, dir, table)
		for day, parts := range days {
			if len(parts) != 1 {
				t.Errorf("%s of %s has the parts %v", table.Name, day, parts)
			}
		}
		if len(days) != 2 || s.state.Tables[table.FileName()].Closed == "" {
			t.Errorf("%s has the days %v, and lists %+v", table.Name, days, s.state.Tables[table.FileName()])
		}
	}
	asListed(t, dir)
	suite.Check(t, dir, j, int64(len(j)))

	content, err := filepath.Glob(filepath.Join(dir, "outliers_history", "date=2026-03-01", "*"))
	if err != nil || len(content) != 1 {
		t.Fatalf("%v, %v", content, err)
	}
	f, err := file.OpenParquetFile(content[0], false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if id := f.MetaData().KeyValueMetadata().FindValue("outlierd.instance"); id == nil || *id != s.state.Instance || *id == "" {
		t.Errorf("the file is of instance %v, want %q", id, s.state.Instance)
	}
	title := f.MetaData().Schema.Column(f.MetaData().Schema.ColumnIndexByName("title"))
	if id := title.SchemaNode().FieldID(); id != int32(fieldID("title")) {
		t.Errorf("column title has the id %d, want %d", id, fieldID("title"))
	}

	again, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if diff := cmp.Diff(s.state.Tables, again.state.Tables); diff != "" {
		t.Errorf("listed after another start (-before +after):\n%s", diff)
	}
}

func TestIDsOfColumnsDiffer(t *testing.T) {
	for _, table := range slices.Concat(schema.Tables(), schema.OpsTables()) {
		names := map[int]string{}
		for _, f := range table.Stored().Fields() {
			if other := names[fieldID(f.Name)]; other != "" {
				t.Errorf("%s: %s and %s have the same id", table.Name, f.Name, other)
			}
			names[fieldID(f.Name)] = f.Name
		}
	}
}

// TestLateAnswersJoinTheirDay: what a sink that was behind brings of a day that is closed already.
func TestLateAnswersJoinTheirDay(t *testing.T) {
	dir, j := t.TempDir(), sample()
	s := openSink(t, dir)
	defer s.Close()
	for hi := int64(2); hi <= 20; hi += 2 {
		writeUpTo(t, s, j, hi)
		publish(t, s)
		asListed(t, dir)
	}
	suite.Check(t, dir, j, 20)
	for day, parts := range partsOf(t, dir, schema.OutliersHistory) {
		if len(parts) != 1 {
			t.Errorf("%s has the parts %v", day, parts)
		}
	}
}

// TestDayIsOverSixHoursAfterItsEnd, and its old parts go an hour after one took their place.
func TestDayIsOverSixHoursAfterItsEnd(t *testing.T) {
	s, dir := written(t, sample()) // its answers are of 1 and 2 March
	now := time.Date(2026, 3, 3, 0, 0, 0, 0, time.UTC).Add(settled - time.Minute)
	s.now = func() time.Time { return now }
	parts := func(day string) int { return len(partsOf(t, dir, schema.OutliersHistory)[day]) }
	replaced := filepath.Join(dir, compactedFolder, "outliers_history", "date=2026-03-02")
	publish(t, s)
	if parts("date=2026-03-01") != 1 || parts("date=2026-03-02") < 2 {
		t.Errorf("a minute before: %v", partsOf(t, dir, schema.OutliersHistory))
	}
	now = now.Add(time.Minute)
	publish(t, s)
	if old, err := os.ReadDir(replaced); parts("date=2026-03-02") != 1 || err != nil || len(old) < 2 {
		t.Errorf("then: %v; kept are %v, %v", partsOf(t, dir, schema.OutliersHistory), old, err)
	}
	now = now.Add(kept)
	publish(t, s)
	if _, err := os.Stat(replaced); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old parts are still there: %v", err)
	}
}

func TestDayStaysAsItIs(t *testing.T) {
	j := sample()
	const day = "outliers_history/date=2026-03-01"
	first := func(dir string) string {
		return filepath.Join(dir, day, partsOf(t, dir, schema.OutliersHistory)["date=2026-03-01"][0])
	}
	for name, spoil := range map[string]func(dir string) error{
		"with a file of somebody else": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, day, "mine.parquet"), []byte("mine"), 0o644)
		},
		"with a link":         func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, day, "link")) },
		"without a part":      func(dir string) error { return os.Remove(first(dir)) },
		"with a damaged part": func(dir string) error { return os.Truncate(first(dir), 100) },
		"that is gone":        func(dir string) error { return os.RemoveAll(filepath.Join(dir, day)) },
		"that is elsewhere": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, day), filepath.Join(dir, "elsewhere")), os.Symlink("../elsewhere", filepath.Join(dir, day)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := written(t, j)
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			before := partsOf(t, dir, schema.OutliersHistory)
			publish(t, s)
			after := partsOf(t, dir, schema.OutliersHistory)
			if diff := cmp.Diff(before["date=2026-03-01"], after["date=2026-03-01"]); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
			if len(after["date=2026-03-02"]) != 1 {
				t.Errorf("the next day has %v", after["date=2026-03-02"])
			}
			reopened, err := Open(options(dir))
			if err != nil {
				t.Fatal(err)
			}
			reopened.Close()
		})
	}
}

// TestFileSystemThatCannotExchangeFolders keeps the parts as they are.
func TestFileSystemThatCannotExchangeFolders(t *testing.T) {
	for _, cause := range []error{unix.EINVAL, unix.EXDEV} {
		dir, j := t.TempDir(), sample()
		s, err := open(options(dir), func(what string) error {
			if strings.HasPrefix(what, "exchange ") {
				return cause
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		writeUpTo(t, s, j, 20)
		publish(t, s)
		if days := partsOf(t, dir, schema.OutliersHistory); len(days["date=2026-03-01"]) < 2 {
			t.Errorf("%v: %v", cause, days)
		}
		asListed(t, dir)
		suite.Check(t, dir, j, 20)
	}
}

// TestDayThatSomebodyRemovesAfterwards is gone, and nothing else fails for it.
func TestDayThatSomebodyRemovesAfterwards(t *testing.T) {
	s, dir := written(t, sample())
	publish(t, s)
	for _, e := range s.state.Exchanges {
		if err := os.RemoveAll(filepath.Join(dir, e.Folder)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.state.Exchanges) == 0 {
		t.Fatal("the last step has exchanged nothing")
	}
	for range 2 {
		again, err := Open(options(dir))
		if err != nil {
			t.Fatal(err)
		}
		publish(t, again)
		again.Close()
	}
	f, err := Look(t.Context(), dir, "", sinktest.Tables())
	if err != nil || len(f.Problems) == 0 || !strings.HasSuffix(f.Problems[0], " is missing") {
		t.Errorf("%q, %v", f.Problems, err)
	}
}

func TestManifestThatNamesAnotherFolderIsRefused(t *testing.T) {
	s, dir := written(t, sample())
	publish(t, s)
	text, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err == nil {
		text = []byte(strings.Replace(string(text), `"folder":"`+s.state.Exchanges[0].Folder, `"folder":"../`+s.state.Exchanges[0].Folder, 1))
		err = os.WriteFile(filepath.Join(dir, manifestName), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	checkError(t, dir, []string{"is not a day of a table", rebuild})
}

// TestManifestOfTheFirstVersionIsTakenOver with all files that it does not name.
func TestManifestOfTheFirstVersionIsTakenOver(t *testing.T) {
	j := sample()
	s, dir := written(t, j)
	if err := s.Publish(t.Context(), sinktest.Runs(0, 20)); err != nil {
		t.Fatal(err)
	}
	want := s.state
	older, err := json.Marshal(map[string]any{
		"version": 1, "step": want.Step, "watermark": want.Watermark, "ops_version": want.OpsVersion, "ops": want.Ops, "moves": nil, "removes": nil,
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, manifestName), older, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	again := openSink(t, dir)
	defer again.Close()
	publish(t, again)
	asListed(t, dir)
	suite.Check(t, dir, j, 20)
	if again.state.Watermark != 20 || again.state.Instance == "" {
		t.Errorf("%+v", again.state)
	}
}

func TestLookNamesWhatIsNotAsItWasWritten(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(part string) error
		want  string
	}{
		"shorter": {func(part string) error { return os.Truncate(part, 100) }, " has 100 bytes in place of "},
		"gone":    {os.Remove, " is missing"},
		"changed": {func(part string) error {
			text, err := os.ReadFile(part)
			if err != nil {
				return err
			}
			text[len(text)/2] ^= 1
			return os.WriteFile(part, text, 0o644)
		}, " is damaged: it does not have the checksum "},
		"another one": {func(part string) error {
			text, err := os.ReadFile(part)
			return errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(part), partOf(900, 901)), text, 0o644))
		}, partOf(900, 901) + " is not of this folder"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := written(t, sample())
			publish(t, s)
			part := filepath.Join(dir, "outliers_history", "date=2026-03-01", partsOf(t, dir, schema.OutliersHistory)["date=2026-03-01"][0])
			if err := c.spoil(part); err != nil {
				t.Fatal(err)
			}
			f, err := Look(t.Context(), dir, "", sinktest.Tables())
			if err != nil {
				t.Fatal(err)
			}
			damaged, err := f.Verify(t.Context())
			if all := append(f.Problems, damaged...); err != nil || len(all) == 0 || !strings.Contains(all[0], c.want) {
				t.Errorf("%q, %v; want %q", all, err, c.want)
			}
		})
	}
}

// TestDamagedPartFailsTheWrite of a table that is compared with its last rows.
func TestDamagedPartFailsTheWrite(t *testing.T) {
	j, dir := sinktest.Sample(20), t.TempDir()
	s := openSink(t, dir)
	writeUpTo(t, s, j, 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, schema.ChannelsHistory.FileName(), "date=*", "part-*.parquet"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("parts: %q, %v", parts, err)
	}
	for _, part := range parts {
		if err := os.WriteFile(part, []byte("PAR1 nonsense PAR1"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s = openSink(t, dir)
	defer s.Close()
	b := j.Batch(10, 20)
	defer sinktest.Release(b)
	if err := s.Write(t.Context(), b); err == nil || !strings.Contains(err.Error(), "read the rows kept last") {
		t.Errorf("error %v", err)
	}
}
