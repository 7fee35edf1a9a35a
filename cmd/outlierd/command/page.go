package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/facts"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/notify"
	"outlierd/sync/runs"
)

// Periods of the page Now, and how much it shows.
const (
	lookBack          = 7 * 24 * time.Hour
	mostNotifications = 10
	lastRuns          = 7  // of all jobs
	sparkRuns         = 12 // of each job
	mostDue           = 8  // due times of a job within a day
	slowLast          = time.Minute
)

// newTables returns the published tables of a daemon until ctx ends.
func newTables(ctx context.Context, p *program, zone *time.Location) *page.Tables {
	tables := page.NewTables(published(p.Engine.Config), zone)
	context.AfterFunc(ctx, tables.Close)
	tables.Cycle, tables.Marks = p.Engine.Facts().Caps().CycleBounds, page.MarksIn(p.Engine.Store.DB)
	return tables
}

// newSite returns the page of a daemon; nil with `daemon.ui: off`.
func newSite(ctx context.Context, p *program, tables *page.Tables, zone *time.Location) *page.Site {
	if p.Engine.Config.Daemon.UI == job.UIOff {
		return nil
	}
	temporary := func() (*temporary, error) { return newTemporary(p.inUse.Load()) }
	sources := tablesSources(tables, func() *job.Config { return p.inUse.Load() }, temporary)
	(&looking{read: p.read, zone: zone, tables: tables}).addTo(&sources)
	addThumbnails(&sources, newThumbnails(p.Engine.Config, tables, p.Engine.Log))
	if p.Engine.Config.Daemon.UI == job.UIFull {
		mark := marking{p.Engine}
		sources.Offer, sources.Mark = p.offerAction, mark.editMarks
		sources.Views, sources.SaveView = tables.Views, mark.saveView
	}
	return page.New(ctx, sources, p.Engine.Config.Daemon.Token.Reveal(), p.Engine.Log)
}

// tablesSources returns what a page shows of the published tables.
func tablesSources(tables *page.Tables, config func() *job.Config, temporary func() (*temporary, error)) page.Sources {
	return page.Sources{
		Found: tables.Found, Video: tables.Video, Channel: tables.Channel, Picked: tables.Picked, PickedSQL: tables.PickedSQL,
		Niche: tables.Niche, Questions: func() []page.Question { return listQuestions(config()) },
		Ask: func(ctx context.Context, sql string) (*query.Rows, error) {
			return tables.First(ctx, query.Process{Command: newAnswerer}, sql)
		},
		Prices: func() outlier.Prices { return config().Service.Prices }, PublishedAt: tables.PublishedAt,
		Feed: func(ctx context.Context, q page.Question, published time.Time) ([]byte, error) {
			return writeFeed(ctx, config(), q, published)
		},
		Download: func(ctx context.Context, sql, format string) (io.ReadCloser, error) {
			return downloadResult(ctx, tables, temporary, sql, format)
		},
		Elsewhere: func(sql string) []page.Snippet { return makeSnippets(tables.Path, sql) },
	}
}

// reading calls a function with the program as it is now; see [program.read].
type reading func(func(seen *program) error) error

// readBy returns what f reads of the program as it is now.
func readBy[T any](read reading, f func(seen *program) (T, error)) (found T, err error) {
	err = read(func(seen *program) (err error) {
		found, err = f(seen)
		return err
	})
	return found, err
}

// looking reads what a page shows of the state.
type looking struct {
	read   reading
	zone   *time.Location
	tables *page.Tables

	// What takes time to work out is kept for a minute.
	mu   sync.Mutex
	slow slow
	at   time.Time
}

// addTo adds what a page shows of the state.
func (l *looking) addTo(sources *page.Sources) {
	sources.Now = func(ctx context.Context) (*page.Now, error) {
		return readBy(l.read, func(seen *program) (*page.Now, error) { return l.readNow(ctx, seen) })
	}
	sources.Runs = func(_ context.Context, f runs.Filter) (*page.Runs, error) {
		return readBy(l.read, func(seen *program) (*page.Runs, error) { return listRuns(seen.Engine.Store, f, l.zone) })
	}
	sources.Run = func(_ context.Context, id string, number int) (*page.RunDetails, error) {
		return readBy(l.read, func(seen *program) (*page.RunDetails, error) { return readRun(seen.Engine.Store, id, number, l.zone) })
	}
	sources.Niche, sources.Money = l.readNiche, l.readMoney
}

// slow is the most that the next runs may cost, by job, and how large the data folder is, in words.
type slow struct {
	prices map[string]string
	data   string
}

func (l *looking) lookSlowly(ctx context.Context, seen *program) (slow, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.at) >= slowLast {
		data, err := dataText(seen)
		if err != nil {
			return slow{}, err
		}
		l.slow, l.at = slow{listPrices(ctx, seen), data}, time.Now()
	}
	return l.slow, nil
}

// dataText says how large the data folder is, and how much a week adds: as large a share of it as that of the answers
// which arrived in the last one.
func dataText(p *program) (string, error) {
	var bytes int64
	err := filepath.WalkDir(p.Engine.Config.Data, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // it was temporary
			return nil
		}
		return err
	})
	if err != nil {
		return "", err
	}
	all, recent, err := p.Engine.Store.Journal.Arrived(time.Now().AddDate(0, 0, -7))
	text := "data folder " + report.Size(bytes)
	if recent < all {
		text += fmt.Sprintf(", ≈ +%s a week", report.Size(int64(float64(bytes)*float64(recent)/float64(all))))
	}
	return text, err
}

// readNow returns the overall status.
func (l *looking) readNow(ctx context.Context, seen *program) (*page.Now, error) {
	store, config := seen.Engine.Store, seen.Engine.Config
	s, err := statusOf(ctx, seen)
	if err != nil {
		return nil, err
	}
	s.At = s.At.In(l.zone)
	now := &page.Now{Status: *s, In: report.Style{Zone: l.zone, Near: true}, Requests: seen.Engine.Pace.Status(), MaxAge: tooOld(config, s.At),
		Cycle: cycleOf(seen.Engine.Facts(), &s.Budget[0])}
	known, err := l.lookSlowly(ctx, seen)
	if err != nil {
		return nil, err
	}
	now.Data = known.data
	for i := range s.Jobs {
		j := page.Job{JobStatus: s.Jobs[i], Price: known.prices[s.Jobs[i].Job]}
		if spec := config.Job(j.Job); spec != nil {
			j.Schedule = scheduleText(spec)
			if !j.Disabled && j.Paused == nil {
				j.DueAt = dueTimes(spec, s.At)
			}
		}
		if j.Recent, err = listLast(store, runs.Filter{Job: j.Job}, sparkRuns, l.zone); err != nil {
			return nil, err
		}
		slices.Reverse(j.Recent)
		now.Rows = append(now.Rows, j)
	}
	if now.Free, err = store.DB.Free(); err != nil {
		return nil, err
	}
	if now.Unconfirmed, err = unconfirmedScans(store); err != nil {
		return nil, err
	}
	if now.Runs, err = listLast(store, runs.Filter{}, lastRuns, l.zone); err != nil {
		return nil, err
	}
	now.Notifications, err = notify.Recent(store.DB, s.At.Add(-lookBack), mostNotifications)
	return now, err
}

// dueTimes returns the due times of a job within a day. With every, they depend on the last run.
func dueTimes(spec *job.Spec, now time.Time) (all []time.Time) {
	if len(spec.Schedule) == 0 {
		return nil
	}
	for at := spec.Next(now, now.Location()); !at.IsZero() && at.Sub(now) < 24*time.Hour && len(all) < mostDue; at = spec.Next(at, now.Location()) {
		all = append(all, at)
	}
	return all
}

// listPrices returns the most that a run of each job may cost now.
func listPrices(ctx context.Context, p *program) map[string]string {
	all := map[string]string{}
	for i := range p.Engine.Config.Jobs {
		spec := &p.Engine.Config.Jobs[i]
		credits, err := p.forecasts().MayCost(ctx, spec, true)
		switch {
		case err != nil: // the page that offers the run says why
		case credits == 0:
			all[spec.Name] = "free"
		default:
			all[spec.Name] = "≤ " + term.Count(credits, "credit")
		}
	}
	return all
}

// tooOld returns the age at which data are said to be old: twice the shortest schedule, and at least a day. Without a
// schedule no new data are expected.
func tooOld(config *job.Config, now time.Time) time.Duration {
	shortest := time.Duration(1<<63 - 1)
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		if first := spec.Next(now, config.Timezone); !first.IsZero() {
			if next := spec.Next(first, config.Timezone); !next.IsZero() {
				shortest = min(shortest, 2*next.Sub(first))
			}
		}
	}
	return max(24*time.Hour, shortest)
}

// scheduleText says when a job runs.
func scheduleText(spec *job.Spec) string {
	switch {
	case len(spec.Schedule) > 0:
		words := make([]string, len(spec.Schedule))
		for i, cron := range spec.Schedule {
			words[i] = scheduleWords(cron)
		}
		return strings.Join(words, ", ")
	case spec.Every > 0:
		return "every " + job.FormatDuration(spec.Every)
	case spec.After != "":
		return "after " + spec.After
	}
	return "by hand"
}

// scheduleWords puts a cron expression with one time of day into words, such as "daily 06:30" or "mon,thu 06:30".
func scheduleWords(cron string) string {
	f := strings.Fields(cron)
	if len(f) != 5 || f[2] != "*" || f[3] != "*" {
		return cron
	}
	minute, err := strconv.Atoi(f[0])
	hour, wrong := strconv.Atoi(f[1])
	if err != nil || wrong != nil {
		return cron
	}
	if f[4] == "*" {
		f[4] = "daily"
	}
	return fmt.Sprintf("%s %02d:%02d", f[4], hour, minute)
}

// readMoney returns what credits were spent on in the billing cycle.
func (l *looking) readMoney(ctx context.Context) (*page.Money, error) {
	m := &page.Money{In: report.Style{Zone: l.zone, Near: true}}
	var from time.Time
	err := l.read(func(seen *program) (err error) {
		caps := seen.Engine.Facts().Caps()
		m.At = caps.Clock.Now().In(l.zone)
		from, _ = caps.CycleBounds()
		if m.Month, err = caps.OfMonth(m.At); err != nil {
			return err
		}
		if m.Day, err = caps.OfDay(m.At); err != nil {
			return err
		}
		if m.Cycle = cycleOf(seen.Engine.Facts(), &m.Month); m.Cycle != nil {
			if err := addDays(m.Cycle, caps); err != nil {
				return err
			}
		}
		f, err := seen.forecasts().Forecast(ctx)
		if err == nil {
			m.Forecast = *f
		}
		return err
	})
	if err == nil {
		err = l.tables.AddMoney(ctx, m, from.In(l.zone))
	}
	if errors.Is(err, page.ErrNothingPublished) {
		err = nil // the state knows what was spent
	}
	return m, err
}

// readNiche returns a niche, with what `schedule: auto` decides next about it.
func (l *looking) readNiche(ctx context.Context, topic string) (*page.Niche, error) {
	n, err := l.tables.Niche(ctx, topic)
	if err != nil {
		return nil, err
	}
	return n, l.read(func(seen *program) error {
		spec := seen.Engine.Config.Job(n.Job)
		if spec == nil || !spec.Auto {
			return nil
		}
		f, err := seen.forecasts().Forecast(ctx, n.Job)
		if err == nil {
			n.Auto = slices.DeleteFunc(page.AutoTopics(f), func(t page.AutoTopic) bool { return t.Name != n.Topic })
		}
		return err
	})
}

// cycleOf returns the billing cycle with the credits left now; nil without a cap.
func cycleOf(known *facts.Reader, month *facts.CapBalance) *page.Cycle {
	if month.Max == nil {
		return nil
	}
	caps, zone := known.Caps(), known.Config.Timezone
	from, to := caps.CycleBounds()
	most := int64(*month.Raised())
	return &page.Cycle{From: from.In(zone), To: to.In(zone), Max: most,
		Left: []page.Point{{At: caps.Clock.Now().In(zone), N: max(0, most-int64(month.Held))}}}
}

// addDays adds the credits left at the end of each day of a cycle.
func addDays(c *page.Cycle, caps *facts.Caps) error {
	now, left := c.Left[0], c.Max
	c.Left = nil
	for day := c.From; day.Before(now.At); {
		held, err := caps.Ledger.Held(ledger.Cap{Scope: ledger.ScopeDay, Period: ledger.Day(day, day.Location())})
		if err != nil {
			return err
		}
		left -= int64(held)
		if day = day.AddDate(0, 0, 1); day.Before(now.At) {
			c.Left = append(c.Left, page.Point{At: day, N: max(0, left)})
		}
	}
	c.Left = append(c.Left, now)
	return nil
}
