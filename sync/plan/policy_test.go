package plan

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"outlierd/outlier"
	"outlierd/sync/job"
)

// A bought page, as a simulated service returns it.
type bought struct {
	Hits, New, Own int
	Total          int64
	Oldest         *float64 // in days of the simulation
}

// A player decides about the topics of a simulated world, where times are days.
type player struct{ topics []Topic }

func newPlayer(n, atLeast int) *player {
	p := &player{}
	for i := range n {
		p.topics = append(p.topics, Topic{Search: fmt.Sprint(i), AtLeast: atLeast})
	}
	return p
}

var dayZero = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func at(day float64) time.Time { return dayZero.Add(time.Duration(day * 24 * float64(time.Hour))) }

// playDay buys what the policy wants on a day. buy returns nil if a cap is reached.
func (p *player) playDay(now float64, left, ends int, buy func(topic, since, page int) *bought) *Auto {
	m := Market{p.topics, Funds{Left: left, Today: left, Days: ends - int(now)}}
	a := m.Decide(at(now), time.UTC)
	pages, totals := map[int]int{}, a.Totals
	taken := func(i int) int { return pages[i] }
	for i := range a.Choices {
		c, topic := &a.Choices[i], 0
		most := a.Buys(i, taken)
		if c.Due == "" || most == 0 {
			continue
		}
		fmt.Sscan(c.Search, &topic)
		v := Visit{At: at(now), Since: c.Since, Total: -1}
		for v.Pages < most {
			b := buy(topic, int(math.Round(days(c.Since.Sub(dayZero)))), v.Pages)
			if b == nil {
				break
			}
			v.Pages, v.New, v.Seen, v.Total = v.Pages+1, v.New+b.New, v.Seen+b.Own, b.Total
			if b.Oldest != nil {
				v.Oldest = at(*b.Oldest)
			}
			if v.Pages == 1 && v.Total >= 2*outlier.MaxSize {
				totals[v.Total]++
			}
			v.Whole = b.Hits < outlier.MaxSize
			if v.Whole || c.NextPage(&v, totals[v.Total]) < a.Price {
				break
			}
		}
		if pages[i] = v.Pages; v.Pages > 0 {
			p.topics[topic].Visits = append(p.topics[topic].Visits, v)
		}
	}
	return a
}

// recorded is a line of testdata/reference.jsonl: a world, or a day of it with what the reference bought.
type recorded struct {
	World        string
	Topics       int
	Now          float64
	Left, Ends   int
	Topic, Since []int
	Pages        [][][5]*float64
}

// TestPolicyBuysWhatTheReferenceBuys on the days of some simulated worlds, whose services are also wrong,
// saturated or silent about totals, and whose daemons are also down.
func TestPolicyBuysWhatTheReferenceBuys(t *testing.T) {
	file, err := os.Open("testdata/reference.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var p *player
	world := ""
	for lines := json.NewDecoder(file); ; {
		var line recorded
		if err := lines.Decode(&line); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if line.World != "" {
			p, world = newPlayer(line.Topics, 14), line.World
			continue
		}
		visit, page := 0, 0
		p.playDay(line.Now, line.Left, line.Ends, func(topic, since, number int) *bought {
			if number == 0 && page > 0 {
				visit, page = visit+1, 0
			}
			if visit >= len(line.Topic) || number >= len(line.Pages[visit]) || number != page ||
				topic != line.Topic[visit] || since != line.Since[visit] {
				t.Fatalf("%s, day %v: bought page %d of topic %d since day %d, want %v since %v",
					world, line.Now, number, topic, since, line.Topic, line.Since)
			}
			of := line.Pages[visit][number]
			page++
			return &bought{int(*of[0]), int(*of[1]), int(*of[2]), int64(*of[3]), of[4]}
		})
		if want := len(line.Topic); page > 0 && visit+1 != want || page == 0 && want > 0 ||
			want > 0 && page != len(line.Pages[want-1]) {
			t.Fatalf("%s, day %v: %d searches, the last of %d pages; want %v", world, line.Now, visit+1, page, line.Topic)
		}
	}
}

// TestAnyMarketKeepsWithinItsFunds: whatever the topics have brought, a day buys no more than its funds, new topics
// aside, and the same market gives the same decision.
func TestAnyMarketKeepsWithinItsFunds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		day := float64(rapid.IntRange(0, 29).Draw(t, "day")) + rapid.Float64Range(0, 0.99).Draw(t, "hour")
		m := Market{Funds: Funds{Left: rapid.IntRange(0, 600).Draw(t, "left"), Today: rapid.IntRange(0, 600).Draw(t, "today"),
			Days: rapid.IntRange(0, 31).Draw(t, "days")}}
		for i := range rapid.IntRange(0, 12).Draw(t, "topics") {
			topic := Topic{Search: fmt.Sprint(i), AtLeast: rapid.IntRange(0, 30).Draw(t, "at_least")}
			for range rapid.IntRange(0, 4).Draw(t, "visits") {
				seen := rapid.IntRange(0, 480).Draw(t, "seen")
				begin := day - rapid.Float64Range(-5, 200).Draw(t, "ago") // also in the future, by a wrong clock
				v := Visit{At: at(begin), Since: at(begin - rapid.Float64Range(0, 40).Draw(t, "window")), Pages: seen/40 + 1, Seen: seen,
					New: rapid.IntRange(0, seen).Draw(t, "new"), Total: rapid.SampledFrom([]int64{-1, 0, 39, 1000, 10_000}).Draw(t, "total"),
					Whole: rapid.Bool().Draw(t, "whole")}
				if rapid.Bool().Draw(t, "has hits") {
					v.Oldest = at(begin - rapid.Float64Range(-1, 20_000).Draw(t, "oldest"))
				}
				topic.Visits = append(topic.Visits, v)
			}
			m.Topics = append(m.Topics, topic)
		}
		a := m.Decide(at(day), time.UTC)
		if diff := cmp.Diff(a, m.Decide(at(day), time.UTC)); diff != "" {
			t.Fatalf("the same market gives another decision\n%s", diff)
		}
		if len(a.Choices) != len(m.Topics) || math.IsNaN(a.Price) || a.Room > min(m.Funds.Left, m.Funds.Today) {
			t.Fatalf("%+v", a)
		}
		greeted, pages := 0, 0
		for i, n := range a.Expected() {
			c := &a.Choices[i]
			if math.IsNaN(c.Expected) || c.Rate <= 0 || math.IsInf(c.Rate, 0) || n > job.AutoPages {
				t.Fatalf("%+v", c)
			}
			if pages += n; c.Due == DueNew && n > 0 {
				greeted++
			}
		}
		if greeted = min(greeted, a.Greet); pages > a.Room+greeted || pages > min(m.Funds.Left, m.Funds.Today) {
			t.Fatalf("%d pages of %d, %d of them for new topics: %+v", pages, a.Room, greeted, a)
		}
	})
}

// TestDeadTopicKeepsPromisedInterval and is not searched more often, whatever the other topics have.
func TestDeadTopicKeepsPromisedInterval(t *testing.T) {
	m := Market{Funds: Funds{Left: 60, Today: 60, Days: 30}}
	for i, found := range []int{0, 40, 40} {
		topic := Topic{Search: fmt.Sprint(i), Name: fmt.Sprint(i), AtLeast: 14}
		for day := range 3 {
			topic.Visits = append(topic.Visits, Visit{At: at(float64(day) * 14), Since: at(float64(day)*14 - 30), Oldest: at(float64(day)*14 - 6),
				Pages: 1, New: found, Seen: found, Total: int64(found * 3), Whole: found == 0})
		}
		m.Topics = append(m.Topics, topic)
	}
	for day, want := range map[float64]string{41: "", 42: DuePromise} {
		a := m.Decide(at(day), time.UTC)
		i := slices.IndexFunc(a.Choices, func(c Choice) bool { return c.Name == "0" })
		if a.Choices[i].Due != want || a.Choices[i].Every != 14 {
			t.Errorf("on day %v: %+v, want due %q", day, a.Choices[i], want)
		}
	}
}

// TestPolicyAnswersTheJudge speaks the lines of an external judge of policies on its standard input and output:
//
//	go test -c -o policy.test ./sync/plan
//	… --cmd 'OUTLIERD_JUDGE=1 ./policy.test -test.run TestPolicyAnswersTheJudge'
func TestPolicyAnswersTheJudge(t *testing.T) {
	if os.Getenv("OUTLIERD_JUDGE") == "" {
		t.Skip("for a judge, which sets OUTLIERD_JUDGE")
	}
	in, out := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	type message struct {
		World  *int
		Topics int
		Now    float64
		Left   int
		Ends   int
		Page   *bought
	}
	var p *player
	known := map[int]int{}
	for {
		var m message
		if err := in.Decode(&m); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if m.World != nil {
			p = newPlayer(m.Topics, 14)
			continue
		}
		clear(known)
		if m.Left > 0 {
			p.playDay(m.Now, m.Left, m.Ends, func(topic, since, page int) *bought {
				out.Encode(map[string]any{"buy": map[string]any{"topic": topic, "since": since, "order": "date", "page": page}})
				var answer struct {
					Page *struct {
						bought
						Known int
					}
				}
				if err := in.Decode(&answer); err != nil {
					t.Fatal(err)
				}
				if answer.Page == nil {
					return nil
				}
				answer.Page.Own = answer.Page.Hits // of a first search, up to repetitions
				return &answer.Page.bought
			})
		}
		out.Encode(map[string]bool{"sleep": true})
	}
}
