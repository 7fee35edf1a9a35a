package pace

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
)

// A file of an older version is read whole: the names in it differ from those of the fields.
func TestNamesInTheFileStay(t *testing.T) {
	want, err := os.ReadFile("testdata/pace.json")
	if err != nil {
		t.Fatal(err)
	}
	f, ok := parse(want)
	if !ok {
		t.Fatal("it is not understood")
	}
	got, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if got = append(got, '\n'); !bytes.Equal(got, want) {
		t.Errorf("it is written back as\n%s\nwant\n%s", got, want)
	}
}
