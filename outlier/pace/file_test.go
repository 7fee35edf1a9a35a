package pace

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// TestFileFormatIsStable: the names in the file differ from those of the fields, so that a field can be
// renamed and the file of an older version is still read.
func TestFileFormatIsStable(t *testing.T) {
	want, err := os.ReadFile("testdata/pace.json")
	if err != nil {
		t.Fatal(err)
	}
	f, ok := parse(want)
	if !ok {
		t.Fatal("testdata/pace.json cannot be parsed")
	}
	got, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if got = append(got, '\n'); !bytes.Equal(got, want) {
		t.Errorf("testdata/pace.json is written back as\n%s\nwant\n%s", got, want)
	}
}
