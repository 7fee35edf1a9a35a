package ledger

import (
	"testing"

	"pgregory.net/rapid"

	"outlierd/outlier"
)

func TestShare(t *testing.T) {
	page := func(runs int, each outlier.Credits) Demand { return Demand{Runs: runs, Each: each, Step: 2} }
	for _, tt := range []struct {
		name string
		left outlier.Credits
		all  []Demand
		want outlier.Credits // of the first
	}{
		{"enough for everybody", 100, []Demand{page(4, 10), page(1, 60)}, 10},
		{"half of what all want", 50, []Demand{page(5, 20)}, 10},
		{"in proportion to what each wants", 60, []Demand{page(3, 20), page(1, 60)}, 10},
		{"nothing is left", 0, []Demand{page(3, 20)}, 0},
		{"less than nothing is left", -5, []Demand{page(3, 20)}, 0},
		{"the last run takes what there is", 7, []Demand{page(1, 20)}, 6},
		{"too little for a step in every run is saved", 2, []Demand{page(10, 4)}, 0},
		{"and spent when it is enough", 2, []Demand{page(2, 4)}, 2},
		{"too little for a step in five runs is one step for five of them", 4, []Demand{{Runs: 3, Each: 1, Step: 1}, {Runs: 1, Each: 17, Step: 1}}, 1},
		{"and none for the others", 4, []Demand{{Runs: 4, Each: 1, Step: 1}, {Runs: 1, Each: 16, Step: 1}}, 0},
		{"the only run of a cycle takes a step at least", 40, []Demand{{Runs: 1, Each: 5, Step: 5}, {Runs: 30, Each: 20, Step: 2}}, 5},
		{"unless there is none", 4, []Demand{{Runs: 1, Each: 5, Step: 5}, {Runs: 30, Each: 20, Step: 2}}, 0},
		{"a job that has no runs left", 50, []Demand{{Each: 10, Step: 2}}, 0},
		{"a job that costs nothing", 50, []Demand{{Runs: 3}}, 0},
	} {
		if got := Share(tt.left, sum(tt.all), tt.all[0]); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestSharesOfACycle plays whole cycles: no job overspends, and each job that the
// budget can pay for gets a run.
func TestSharesOfACycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left := outlier.Credits(rapid.IntRange(0, 400).Draw(t, "left"))
		var all []Demand
		var order []int // whose turn it is
		for i := range rapid.IntRange(1, 6).Draw(t, "jobs") {
			runs := rapid.IntRange(1, 31).Draw(t, "runs")
			pages := rapid.IntRange(1, 10).Draw(t, "pages")
			all = append(all, Demand{Runs: runs, Each: outlier.Credits(2 * pages), Step: 2})
			for range runs {
				order = append(order, i)
			}
		}
		order = rapid.Permutation(order).Draw(t, "order")
		begin, wanted, spent := left, sum(all), make([]outlier.Credits, len(all))
		for _, i := range order {
			share := Share(left, sum(all), all[i])
			if share < 0 || share > left || share > all[i].Each || share%all[i].Step != 0 {
				t.Fatalf("a share of %d of %d left for %+v", share, left, all[i])
			}
			spent[i] += share
			left -= share
			all[i].Runs--
		}
		if wanted <= begin && begin-left != wanted {
			t.Fatalf("%d of %d wanted were spent although there were %d", begin-left, wanted, begin)
		}
		if idle := outlier.Credits(2 * len(all)); wanted > begin && left > idle {
			t.Fatalf("%d of %d are left at the end although %d were wanted", left, begin, wanted)
		}
	})
}

func sum(all []Demand) (wanted outlier.Credits) {
	for _, d := range all {
		wanted += outlier.Credits(d.Runs) * d.Each
	}
	return wanted
}
