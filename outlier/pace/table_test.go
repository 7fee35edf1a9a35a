package pace

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"outlierd/internal/testenv"
)

var (
	update = flag.Bool("update", false, "write the table of testdata/limiters.md")
	seeds  = flag.Int("seeds", 0, "number of seeds to simulate; 0 for a random sample")
	begin  = flag.Int("first", 0, "first seed")
)

const page = "testdata/limiters.md"

var (
	tenIn2Minutes = Quota{10, 2 * time.Minute}
	thirtyAMinute = Quota{30, time.Minute}
	withHeaders   = styles[1:]
	bodyOnly      = styles[:1]
	withDelta     = styles[3:4]
	noHeaders     = []style{silent, styles[0]}
)

// A kind returns a service with a random phase.
type kind func(random *rand.Rand, seed int) service

func clockOf(q Quota) kind {
	return func(random *rand.Rand, _ int) service { return &onClock{Quota: q, phase: randomPhase(random, q)} }
}

func hitOf(q Quota) kind { return func(*rand.Rand, int) service { return &fromHit{Quota: q} } }

// slidingOf states a useful reset in every other seed.
func slidingOf(q Quota) kind {
	return func(_ *rand.Rand, seed int) service { return &slidingLog{Quota: q, vague: seed%2 == 1} }
}

func bucketOf(burst int) kind {
	return func(*rand.Rand, int) service { return &refilling{burst: burst, each: 6 * time.Second} }
}

// burstOf is a bucket that states a window of one minute, whatever its burst.
func burstOf(burst int) kind {
	return func(*rand.Rand, int) service {
		return &windowed{&refilling{burst: burst, each: 6 * time.Second}, time.Minute}
	}
}

func approximateOf(q Quota) kind {
	return func(random *rand.Rand, _ int) service { return &approximate{Quota: q, phase: randomPhase(random, q)} }
}

// lyingOf returns a service of each kind for each lie.
func lyingOf(kinds ...kind) (all []kind) {
	for _, k := range kinds {
		for lie := range lieKinds {
			all = append(all, func(random *rand.Rand, seed int) service { return &lying{k(random, seed), lie} })
		}
	}
	return all
}

// A row is one line of the table and its targets.
type row struct {
	name     string
	services []kind
	styles   []style
	jobs     int       // calls in flight at once; 0 = 1
	clients  int       // independent of each other; 0 = 1
	shares   []float64 // of the quota, instead of clients that want all of it
	restarts time.Duration
	limit    Quota // that is configured; zero = ten a minute

	use     float64 // minimum utilisation
	refused int     // maximum number of refusals
	late    bool    // fewer than one refusal in ten minutes, in every hour but the first
	prompt  bool    // the first ten requests must not wait
	strict  bool    // ten at once would be refused after a pause, which the limiter learns
}

// rows are the services with which the limiter is measured. Ten a minute are configured.
func rows() (all []row) {
	plain := []row{
		{name: "fixed window on the clock", services: []kind{clockOf(tenAMinute)}},
		{name: "fixed window from the first hit", services: []kind{hitOf(tenAMinute)}},
		{name: "sliding log", services: []kind{slidingOf(tenAMinute)}},
		{name: "token bucket of 10", services: []kind{bucketOf(10)}},
	}
	for _, s := range []row{
		{name: "", styles: styles, use: 0.99, prompt: true},
		{name: ", restarted every 5 min", styles: styles, restarts: 5 * time.Minute, use: 0.985, prompt: true},
		{name: ", 2 jobs at once", styles: styles, jobs: 2, use: 0.99, prompt: true},
		{name: ", 4 jobs at once", styles: styles, jobs: 4, use: 0.99, prompt: true},
		{name: ", 2 clients on one key", styles: withHeaders, clients: 2, use: 0.97, refused: 10},
	} {
		for _, r := range plain {
			s.services = r.services
			all = append(all, s)
			all[len(all)-1].name = r.name + s.name
		}
	}
	first := []kind{clockOf(tenAMinute), hitOf(tenAMinute), slidingOf(tenAMinute), bucketOf(10)}
	others := []kind{
		clockOf(tenIn2Minutes), hitOf(tenIn2Minutes), clockOf(thirtyAMinute), hitOf(thirtyAMinute),
		bucketOf(20), burstOf(60), bucketOf(5), bucketOf(1), approximateOf(tenAMinute),
	}
	return append(all, []row{
		{
			name:     "the first four, shares of 0.5 and 0.5",
			services: first,
			styles:   styles, shares: []float64{0.5, 0.5}, use: 0.99,
		},
		{
			name:     "the first four, shares of 0.3 and 0.7",
			services: first,
			styles:   styles, shares: []float64{0.3, 0.7}, use: 0.99,
		},
		{
			name:     "10 in 120 s, on the clock",
			services: []kind{clockOf(tenIn2Minutes)},
			styles:   withHeaders, use: 0.99, refused: 1, prompt: true,
		},
		{
			name:     "10 in 120 s, from the first hit",
			services: []kind{hitOf(tenIn2Minutes)},
			styles:   withHeaders, use: 0.99, refused: 1, prompt: true,
		},
		{
			name:     "30 in 60 s, on the clock",
			services: []kind{clockOf(thirtyAMinute)},
			styles:   withHeaders, use: 0.99, refused: 1, prompt: true,
		},
		{
			name:     "30 in 60 s, from the first hit",
			services: []kind{hitOf(thirtyAMinute)},
			styles:   withHeaders, use: 0.99, refused: 1, prompt: true,
		},
		{
			name:     "token bucket of 20 that refills 10 a minute",
			services: []kind{bucketOf(20)},
			styles:   withHeaders, use: 0.99, refused: 1, prompt: true,
		},
		{
			name:     "the same, stated as 20 in 60 s",
			services: []kind{burstOf(20)},
			styles:   withHeaders, use: 0.99, refused: 1, prompt: true,
		},
		{
			name:     "the same with 60, stated as 60 in 60 s",
			services: []kind{burstOf(60)},
			styles:   withHeaders, use: 0.99, refused: 1, prompt: true,
		},
		{name: "GCRA, burst 5", services: []kind{bucketOf(5)}, styles: withHeaders, use: 0.98, refused: 1},
		{name: "GCRA, burst 5", services: []kind{bucketOf(5)}, styles: bodyOnly, use: 0.95, refused: 1},
		{name: "GCRA, burst 1", services: []kind{bucketOf(1)}, styles: withHeaders, use: 0.95, refused: 1},
		{name: "GCRA, burst 1", services: []kind{bucketOf(1)}, styles: bodyOnly, use: 0.90, refused: 1},
		{
			name:     "approximate sliding counter",
			services: []kind{approximateOf(tenAMinute)},
			styles:   styles, use: 0.90, refused: 6, prompt: true, strict: true,
		},
		{
			name:     "the first four with headers that lie",
			services: lyingOf(first...),
			styles:   styles, use: 0.99, refused: 1, prompt: true,
		},
		{
			name:     "the first four, configured as 20 a minute",
			services: first,
			styles:   noHeaders,
			limit:    Quota{20, time.Minute}, use: 0.80, refused: 30, late: true,
		},
		{
			name:     "the first four, configured as 600 a minute",
			services: first,
			styles:   noHeaders,
			limit:    Quota{600, time.Minute}, use: 0.80, refused: 30, late: true,
		},
		{
			name:     "the first four, configured as 1000 a minute",
			services: first,
			styles:   noHeaders,
			limit:    Quota{1000, time.Minute}, use: 0.80, refused: 30, late: true,
		},
		{
			name:     "the other nine services, configured as 1000 a minute",
			services: others,
			styles:   noHeaders,
			limit:    Quota{1000, time.Minute}, use: 0.80, refused: 30, late: true,
		},
		{
			name:     "the first four with headers that lie, configured as 1000 a minute",
			services: lyingOf(first...),
			styles:   withDelta,
			limit:    Quota{1000, time.Minute}, use: 0.80, refused: 30, late: true,
		},
	}...)
}

// headers returns the column Headers of a row.
func (r row) headers() string {
	switch {
	case len(r.styles) == len(styles):
		return "all"
	case len(r.styles) == 1:
		return r.styles[0].name
	case r.styles[0].name == silent.name:
		return "nothing, body only"
	}
	return "with headers"
}

// limiters are compared in the columns of the table.
var limiters = []struct {
	name string
	new  func(q Quota, kept bool, share float64) client
}{
	{"this limiter", func(q Quota, kept bool, share float64) client { return newLimiter(q, kept, share) }},
	{"rate, burst 1", func(q Quota, _ bool, share float64) client { return newBucketLimiter(q, 1, share) }},
	{"rate, burst 10", func(q Quota, _ bool, share float64) client { return newBucketLimiter(q, 10, share) }},
	{"stop at 0", func(q Quota, _ bool, _ float64) client { return &stopsAtZero{q: q} }},
}

// maxHourly is the maximum number of refusals in an hour of a row that is late.
const maxHourly = 5

// otherSeeds is the maximum number of seeds for the other limiters, which are slow to simulate and only there
// for comparison.
const otherSeeds = 3

// play returns the worst result of a row over all its services, styles and seeds. It logs the days of this package's
// limiter that miss a target.
func (r row) play(t *testing.T, limiter, seeds int) result {
	t.Helper()
	worst := result{use: 2}
	for i, service := range r.services {
		for _, style := range r.styles {
			for seed := *begin; seed < *begin+seeds; seed++ {
				got := r.scene(service, style, seed, limiter).run(day)
				if limiter == 0 && (got.use < r.use || got.refused > r.refused || r.late && got.hourly > maxHourly) {
					t.Logf("service %d, style %s, seed %d: %+v", i, style.name, seed, got)
				}
				worst = worst.or(got)
			}
		}
	}
	return worst
}

// playSample simulates a few random scenarios of a row, out of those of `-seeds 20`, so that ordinary test runs
// cover all of them over time.
func (r row) playSample(t *testing.T, random *rand.Rand) result {
	t.Helper()
	worst := result{use: 2}
	for range max(1, len(r.services)*len(r.styles)/32) {
		service, style, seed := random.IntN(len(r.services)), r.styles[random.IntN(len(r.styles))], random.IntN(20)
		got := r.scene(r.services[service], style, seed, 0).run(day)
		t.Logf("service %d, style %s, seed %d: %+v", service, style.name, seed, got)
		worst = worst.or(got)
	}
	return worst
}

// or returns the worst of two results.
func (a result) or(b result) result {
	return result{
		use: min(a.use, b.use), refused: max(a.refused, b.refused), hourly: max(a.hourly, b.hourly),
		waited: max(a.waited, b.waited), again: max(a.again, b.again),
	}
}

func (r row) scene(k kind, s style, seed, limiter int) *scenario {
	random := rand.New(rand.NewPCG(uint64(seed), 7))
	sc := &scenario{service: k(random, seed), style: s, jobs: max(1, r.jobs), restarts: r.restarts, random: random}
	sc.skew = sc.between(-2*time.Minute, 2*time.Minute)
	sc.shares = r.shares
	if r.shares == nil {
		sc.shares = slices.Repeat([]float64{1}, max(1, r.clients))
	}
	for _, share := range sc.shares {
		sc.clients = append(sc.clients, limiters[limiter].new(cmp.Or(r.limit, tenAMinute), r.restarts > 0, share))
	}
	return sc
}

func (r row) head() string {
	return fmt.Sprintf("| %s | %s | ≥ %.4g %%, ≤ %d |", r.name, r.headers(), 100*r.use, r.refused)
}

func cellOf(got result) string { return fmt.Sprintf(" %.1f %%, %d |", 100*got.use, got.refused) }

// TestTable checks the targets of the table in testdata/limiters.md. With -update it writes the table, including the
// columns of the other limiters.
func TestTable(t *testing.T) {
	if testing.Short() {
		t.Skip("it simulates hundreds of days, in one goroutine each")
	}
	if *update && *seeds == 0 {
		t.Fatal("-update needs -seeds")
	}
	all := rows()
	lines := make([]string, len(all))
	t.Run("rows", func(t *testing.T) {
		for i, r := range all {
			t.Run(r.name+"/"+r.headers(), func(t *testing.T) {
				t.Parallel()
				random := testenv.Random(t)
				if *seeds == 0 && random.IntN(2) == 0 {
					t.Skip("half of the rows are played, at random")
				}
				var got result
				if *seeds > 0 {
					got = r.play(t, 0, *seeds)
				} else {
					got = r.playSample(t, random)
				}
				if got.use < r.use || got.refused > r.refused {
					t.Errorf("utilisation %.2f %% with %d refusals, want at least %.2f %% with at most %d",
						100*got.use, got.refused, 100*r.use, r.refused)
				}
				if r.late && got.hourly > maxHourly {
					t.Errorf("%d refusals in an hour after the first, want fewer than one in ten minutes", got.hourly)
				}
				if r.prompt && got.waited > 0 {
					t.Errorf("the first ten requests wait for %v, want no wait", got.waited)
				}
				if r.prompt && !r.strict && got.again > 0 {
					t.Errorf("after a day and a pause the tenth request waits for %v, want no wait", got.again)
				}
				lines[i] = r.head() + cellOf(got)
				for limiter := 1; *update && limiter < len(limiters); limiter++ {
					lines[i] += cellOf(r.play(t, limiter, min(*seeds, otherSeeds)))
				}
			})
		}
	})
	if *update {
		note := fmt.Sprintf("\nSeeds from %d on: %d for this limiter, %d for the others.\n",
			*begin, *seeds, min(*seeds, otherSeeds))
		rewrite(t, page, "table", head()+strings.Join(lines, "\n")+"\n"+note)
	}
}

// TestUnseenClientsShareKey: one of two clients sees few requests of the other, and must leave slots to it
// nevertheless.
func TestUnseenClientsShareKey(t *testing.T) {
	testenv.RacesLittle(t)
	r := row{clients: 2}
	random := testenv.Random(t)
	for _, seed := range []int{1019, 1022, 1045} {
		for _, style := range []style{styles[1], styles[3], styles[6]} {
			if random.IntN(2) == 0 {
				continue // half of them are played, at random
			}
			if got := r.scene(hitOf(tenAMinute), style, seed, 0).run(day); got.refused > 10 || got.use < 0.97 {
				t.Errorf("seed %d, %s: %d refused, %.1f %% used; want at most 10, and at least 97 %%",
					seed, style.name, got.refused, 100*got.use)
			}
		}
	}
}

// TestPauseProvesNoFixedWindow: after a pause an estimate of a sliding window is low, too. A client that takes its
// service for one of fixed windows then takes its own requests for those of another client.
func TestPauseProvesNoFixedWindow(t *testing.T) {
	r := row{services: []kind{approximateOf(tenAMinute)}}
	for _, seed := range []int{9, 11} {
		if got := r.scene(r.services[0], styles[1], seed, 0).run(day / 2); got.use < 0.9 {
			t.Errorf("seed %d: %.1f %% used, want at least 90 %%", seed, 100*got.use)
		}
	}
}

func head() string {
	names := "| Service | Headers | Target |"
	rule := "|---|---|---|"
	for _, r := range limiters {
		names += " " + r.name + " |"
		rule += "---|"
	}
	return names + "\n" + rule + "\n"
}

// rewrite replaces the text between the two marks of a name in a page.
func rewrite(t *testing.T, path, name, text string) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no %s and %s", path, strings.TrimSpace(begin), end)
	}
	if err := os.WriteFile(path, []byte(before+begin+text+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
