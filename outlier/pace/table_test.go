package pace

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"testing"
	"time"
)

func TestDebugTable(t *testing.T) {
	q := Quota{10, time.Minute}
	wrong := Quota{10, 2 * time.Minute}
	more := Quota{30, time.Minute}
	type kind struct {
		name string
		new  func(*rand.Rand, int) service
	}
	kinds := []kind{
		{"clock", func(r *rand.Rand, i int) service { return &onClock{Quota: q, phase: some(r, q)} }},
		{"hit", func(r *rand.Rand, i int) service { return &fromHit{Quota: q} }},
		{"sliding", func(r *rand.Rand, i int) service { return &slidingLog{Quota: q, vague: i%2 == 1} }},
		{"bucket", func(r *rand.Rand, i int) service { return &refilling{burst: 10, each: 6 * time.Second} }},
		{"clock120", func(r *rand.Rand, i int) service { return &onClock{Quota: wrong, phase: some(r, wrong)} }},
		{"hit120", func(r *rand.Rand, i int) service { return &fromHit{Quota: wrong} }},
		{"clock30", func(r *rand.Rand, i int) service { return &onClock{Quota: more, phase: some(r, more)} }},
		{"hit30", func(r *rand.Rand, i int) service { return &fromHit{Quota: more} }},
		{"bucket20", func(r *rand.Rand, i int) service { return &refilling{burst: 20, each: 6 * time.Second} }},
		{"gcra5", func(r *rand.Rand, i int) service { return &refilling{burst: 5, each: 6 * time.Second} }},
		{"gcra1", func(r *rand.Rand, i int) service { return &refilling{burst: 1, each: 6 * time.Second} }},
		{"approx", func(r *rand.Rand, i int) service { return &approximate{Quota: q, phase: some(r, q)} }},
		{"liarclock", func(r *rand.Rand, i int) service { return &liar{&onClock{Quota: q, phase: some(r, q)}, i} }},
		{"liarbucket", func(r *rand.Rand, i int) service { return &liar{&refilling{burst: 10, each: 6 * time.Second}, i} }},
	}
	for _, mode := range []struct {
		name     string
		jobs, n  int
		restarts time.Duration
	}{{"1", 1, 1, 0}, {"strangers", 1, 2, 0}} {
		for _, k := range kinds {
			if !regexp.MustCompile(os.Getenv("KIND")).MatchString(mode.name + " " + k.name) {
				continue
			}
			line := fmt.Sprintf("%-10s %-10s", mode.name, k.name)
			for _, st := range styles {
				worst, refused := 2.0, 0
				for seed := range seeds() {
					if x := os.Getenv("SEED"); x != "" && x != fmt.Sprint(seed) || !regexp.MustCompile(os.Getenv("STYLE")).MatchString(st.name) {
						continue
					}
					random := rand.New(rand.NewPCG(uint64(seed), 7))
					sc := &scene{service: k.new(random, seed), style: st, jobs: mode.jobs, restarts: mode.restarts, random: random, trace: os.Getenv("SEED") != ""}
					sc.skew = sc.between(-2*time.Minute, 2*time.Minute)
					for range mode.n {
						sc.clients = append(sc.clients, newLimiter(q, mode.restarts > 0))
					}
					r := sc.run(day)
					worst, refused = min(worst, r.use), max(refused, r.refused)
					if os.Getenv("EACH") != "" {
						fmt.Printf("%s %s seed %d: %.2f %d\n", k.name, st.name, seed, 100*r.use, r.refused)
					}
				}
				line += fmt.Sprintf(" %6.2f/%-4d", 100*worst, refused)
			}
			t.Log(line)
		}
	}
}

func seeds() int {
	if x := os.Getenv("SEEDS"); x != "" {
		var n int
		fmt.Sscan(x, &n)
		return n
	}
	return 4
}
