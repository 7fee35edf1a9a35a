package yamltree

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// The costs of a line follow its length: a list in a line may have thousands of values, each with a place
// and perhaps a mistake.
func TestLineCostFollowsItsLength(t *testing.T) {
	allocated := func(values int) uint64 {
		line := make([]string, values)
		for i := range line {
			line[i] = fmt.Sprintf("topic %05d", i)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f := New("jobs.yaml", []byte("topics: ["+strings.Join(line, ", ")+"]"), func(lines []string) []string { return lines })
		for i, n := range f.Parse().Get("topics").Members() {
			if want := len("topics: [") + 1 + i*len("topic 00000, "); n.Line != 1 || n.Column != want {
				t.Errorf("%s is in line %d at %d, want 1 at %d", n.Text, n.Line, n.Column, want)
			}
			n.Refuse("must be something else")
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := allocated(400), allocated(4000)
	if many > 15*few {
		t.Errorf("400 values take %d bytes and 4000 take %d, want ten times as many", few, many)
	}
}
