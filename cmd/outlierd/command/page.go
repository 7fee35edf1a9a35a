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
	"outlierd/cmd/outlierd/pagedata"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/outlier/pace"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
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
func newTables(ctx context.Context, p *program, zone *time.Location) *pagedata.Tables {
	tables := pagedata.New(published(p.Engine.Config), zone)
	context.AfterFunc(ctx, tables.Close)
	tables.Cycle, tables.Marks = p.Engine.Facts().Caps().CycleBounds, pagedata.MarksIn(p.Engine.Store.DB)
	return tables
}

// newSite returns the page of a daemon; nil with `daemon.ui: off`.
func newSite(ctx context.Context, p *program, tables *pagedata.Tables, zone *time.Location) *page.Site {
	if p.Engine.Config.Daemon.UI == job.UIOff {
		return nil
	}
	temporary := func() (*temporary, error) { return newTemporary(p.inUse.Load()) }
	sources := tablesSources(tables, func() *job.Config { return p.inUse.Load() }, temporary)
	(&looking{read: p.read, zone: zone, tables: tables}).addTo(&sources)
	addThumbnails(&sources, newThumbnails(p.Engine.Config, tables, p.Engine.Log))
	if p.Engine.Config.Daemon.UI == job.UIFull {
		do, mark := actions{p}, marking{p.Engine}
		sources.Offer, sources.Do, sources.Mark = do.offerAction, do.doAction, mark.editMarks
		sources.Views = page.Views{List: mark.listViews, Save: mark.saveView}
	}
	return page.New(ctx, sources, p.Engine.Config.Daemon.Token.Reveal(), p.Engine.Log)
}

// tablesSources returns what a page shows of the published tables.
func tablesSources(tables *pagedata.Tables, config func() *job.Config, temporary func() (*temporary, error)) page.Sources {
	return page.Sources{
		Found: tables.Found, Video: tables.Video, Channel: tables.Channel, Picked: tables.Picked, Export: tables.Export,
		Niche: tables.Niche, Tables: listTables(), Questions: func() []page.Question { return listQuestions(config()) },
		Ask: func(ctx context.Context, sql string) (*page.Result, error) {
			return tables.First(ctx, query.Process{Command: newAnswerer}, sql)
		},
		PublishedAt: tables.PublishedAt,
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
	tables *pagedata.Tables

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
	sources.Runs = func(_ context.Context, f page.RunFilter) (*page.Runs, error) {
		return readBy(l.read, func(seen *program) (*page.Runs, error) { return listRuns(seen.Engine.Store, f, l.zone) })
	}
	sources.Run = func(_ context.Context, id string) (*page.RunDetails, error) {
		return readBy(l.read, func(seen *program) (*page.RunDetails, error) { return readRun(seen.Engine.Store, id, l.zone) })
	}
	sources.Niche, sources.Money = l.readNiche, l.readMoney
}

// slow is the most that the next runs may cost, by job, and how large the data folder is.
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
	free, err := store.DB.Free()
	if err != nil {
		return nil, err
	}
	s, err := statusOf(ctx, seen)
	if err != nil {
		return nil, err
	}
	cycle, err := cycleOf(seen.Engine.Facts(), &s.Budget[0])
	if err != nil {
		return nil, err
	}
	known, err := l.lookSlowly(ctx, seen)
	if err != nil {
		return nil, err
	}
	style := report.Style{Zone: l.zone, Near: true}
	now := nowOf(s, style, config)
	now.Stats = append(makeStats(s, style, seen.Engine.Pace.Status(), cycle),
		page.Stat{Name: "Disk", Value: fmt.Sprintf("%d GB", free>>30), Unit: "free", More: known.data})
	due := dueTimes(config, time.Now())
	for i := range now.Jobs {
		j := &now.Jobs[i]
		j.Price, j.DueAt = known.prices[s.Jobs[i].Job], due[s.Jobs[i].Job]
		if s.Jobs[i].Disabled || s.Jobs[i].Paused != nil {
			j.DueAt = nil
		}
		if j.New, j.Failed, err = readSpark(store, s.Jobs[i].Job); err != nil {
			return nil, err
		}
	}
	if cycle != nil {
		now.Left = new(cycle.Rest())
	}
	unconfirmed, err := unconfirmedScans(store)
	if err != nil {
		return nil, err
	}
	for i := range unconfirmed {
		now.Scans = append(now.Scans, unconfirmedText(&unconfirmed[i], l.zone))
	}
	if now.Runs, err = listLast(store, lastRuns, l.zone); err != nil {
		return nil, err
	}
	recent, err := notify.Recent(store.DB, s.At.Add(-lookBack), mostNotifications)
	for _, t := range recent {
		now.Notifications = append(now.Notifications, page.Notification{
			At: style.Short(t.Time, s.At), Title: t.Title, Text: t.Text, Targets: t.Targets, Waits: t.Waits,
		})
	}
	return now, err
}

// dueTimes returns the due times of the jobs within a day.
func dueTimes(config *job.Config, now time.Time) map[string][]time.Time {
	all := map[string][]time.Time{}
	for i := range config.Jobs {
		spec := &config.Jobs[i]
		if len(spec.Schedule) == 0 {
			continue // with every, it depends on the last run
		}
		for at := spec.Next(now, config.Timezone); !at.IsZero() && at.Sub(now) < 24*time.Hour && len(all[spec.Name]) < mostDue; {
			all[spec.Name] = append(all[spec.Name], at.In(config.Timezone))
			at = spec.Next(at, config.Timezone)
		}
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

// nowOf returns the status for the page, in the words of `status`.
func nowOf(s *forecast.Status, in report.Style, config *job.Config) *page.Now {
	n := &page.Now{At: in.At(s.At), Time: s.At.In(in.Zone), Process: report.Process(s.Process, in), Blocked: len(s.Refused) > 0}
	for _, text := range report.Problems(s) {
		n.Problems = append(n.Problems, page.Problem{Text: text, Bad: s.Disk != nil})
	}
	for _, r := range s.Refused {
		n.Problems = append(n.Problems, page.Problem{Title: "Calls are blocked.", Text: strings.TrimSpace(report.Refusal(r, in)), Bad: true})
	}
	for i := range s.Sinks {
		if sink := &s.Sinks[i]; sink.Error != "" || sink.Lost {
			n.Problems = append(n.Problems, page.Problem{Title: sink.Sink + " is not published.", Text: report.Sink(sink, s.At, in)})
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		row := page.Job{Name: job.Shown(j.Job), Due: report.NextDue(j, s.At, in), Why: j.Why, Status: "never", Schedule: scheduleText(config, j.Job)}
		if j.Doing == forecast.JobRunning {
			row.Working, n.Running = j.Run, job.Shown(j.Job)
		}
		row.Doing = report.Doing(j)
		row.Paused = j.Paused != nil && j.Paused.Job == j.Job
		row.Scheduled = !j.Disabled && (!j.Due.IsZero() || j.After != "")
		if last := j.Last; last != nil {
			row.Run, row.Status = last.ID, last.Status
			row.Last = strings.TrimPrefix(report.LastRun(j, s.At, in), string(last.Status)+", ")
			if last.Status == runs.Failed || last.Status == runs.PausedQuota {
				title := row.Name + " failed."
				if j.Streak != nil && j.Streak.Runs > 1 {
					title = fmt.Sprintf("%s failed %d times.", row.Name, j.Streak.Runs)
				}
				text := strings.TrimSuffix(last.Error, ".") + "; " + describeSpent(int64(last.Credits)) + "."
				if !j.Due.IsZero() {
					text += " It is tried again at " + in.Short(j.Due, s.At) + "."
				}
				n.Problems = append(n.Problems, page.Problem{Title: title, Text: text, Bad: true, Run: last.ID, Job: row.Name})
			}
		}
		n.Jobs = append(n.Jobs, row)
	}
	if !s.Newest.IsZero() {
		n.Newest = in.Short(s.Newest, s.At)
		if old := s.At.Sub(s.Newest); old > tooOld(config, s.At) {
			n.Old = fmt.Sprintf("The newest data is of %s, %s ago.", in.At(s.Newest), formatDays(old))
		}
	}
	return n
}

func formatDays(d time.Duration) string { return term.Count(int(d.Hours()/24), "day") }

// describeSpent says what a run cost.
func describeSpent(credits int64) string {
	if credits == 0 {
		return "nothing was charged"
	}
	return term.Count(credits, "credit") + " were charged"
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
func scheduleText(config *job.Config, name string) string {
	spec := config.Job(name)
	switch {
	case spec == nil:
		return ""
	case len(spec.Schedule) > 0:
		words := make([]string, len(spec.Schedule))
		for i, cron := range spec.Schedule {
			words[i] = scheduleWords(cron)
		}
		return strings.Join(words, ", ")
	case spec.Every > 0:
		return "every " + job.Duration(spec.Every).String()
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

// makeStats returns the numbers of the status, without the disk.
func makeStats(s *forecast.Status, in report.Style, window pace.Status, cycle *page.Cycle) []page.Stat {
	credits := page.Stat{Name: "Credits of the cycle", Value: page.Thousands(int64(s.Budget[0].Held)), Unit: "held, no cap"}
	if cycle != nil {
		left := cycle.Rest()
		credits = page.Stat{Name: "Credits of the cycle", Value: page.Thousands(left), Unit: "of " + page.Thousands(cycle.Max) + " left",
			Meter: &page.Meter{Used: left, Of: cycle.Max, Even: cycle.Even()},
			More:  "even spending from " + cycle.From.Format("2 Jan") + " to " + cycle.To.Format("2 Jan") + " would leave " + page.Thousands(cycle.Even())}
	}
	used := int64(window.Limit - window.Remaining)
	requests := page.Stat{Name: "Requests", Value: page.Thousands(used), Unit: "of " + report.Pace(s, in), Meter: &page.Meter{Used: used, Of: int64(window.Limit)}}
	if window.Foreign > 0 {
		requests.More = fmt.Sprintf("%d by others with your key", window.Foreign)
	}
	queue := page.Stat{Name: "Queue", Value: page.Thousands(int64(s.Queue.Calls + s.Queue.Pages)), Unit: "calls", More: report.Queued(s, in)}
	newest := page.Stat{Name: "Newest data", Value: "–"}
	if !s.Newest.IsZero() {
		newest.Value, newest.Unit = in.Short(s.Newest, s.At), term.Duration(max(0, s.At.Sub(s.Newest)))+" ago"
	}
	for i := range s.Sinks {
		newest.More = strings.TrimPrefix(newest.More+" · "+report.Sink(&s.Sinks[i], s.At, in), " · ")
	}
	return []page.Stat{credits, requests, queue, newest}
}

// readMoney returns what credits were spent on in the billing cycle.
func (l *looking) readMoney(ctx context.Context) (*page.Money, error) {
	m := &page.Money{}
	var from time.Time
	err := l.read(func(seen *program) error {
		known := seen.Engine.Facts()
		budget, err := seen.forecasts().Budget(ctx)
		if err != nil {
			return err
		}
		m.Now = budget.At.In(l.zone)
		from, _ = known.Caps().CycleBounds()
		from = from.In(l.zone)
		for i := range budget.Caps {
			switch c := &budget.Caps[i]; c.Scope {
			case ledger.ScopeMonth:
				m.Spent, m.Lost = int64(c.Held), int64(c.Unknown)
				m.Cycle, err = cycleOf(known, c)
			case ledger.ScopeDay:
				m.Today = int64(c.Held)
				if c.Max != nil {
					m.Day = new(int64(*c.Max))
				}
			}
			if err != nil {
				return err
			}
		}
		f, err := seen.forecasts().Forecast(ctx)
		if err == nil {
			m.Schedule = int64(f.Cycle.Wanted)
			m.Auto = autoTopics(f)
			m.Next = nextRuns(f, report.Style{Zone: l.zone, Near: true})
		}
		return err
	})
	if err == nil {
		err = l.tables.AddMoney(ctx, m, from)
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
			n.Auto = slices.DeleteFunc(autoTopics(f), func(t page.AutoTopic) bool { return t.Topic != n.Topic })
		}
		return err
	})
}

// autoTopics returns what `schedule: auto` decides next, topic by topic.
func autoTopics(f *forecast.Forecast) (all []page.AutoTopic) {
	for i := range f.Jobs {
		a := f.Jobs[i].Auto
		if a == nil {
			continue
		}
		for k, pages := range a.Expected() {
			c := &a.Choices[k]
			all = append(all, page.AutoTopic{Topic: job.Shown(c.Name), Job: job.Shown(c.Job), Rate: c.Rate, Expected: c.Expected, Next: c.Next(pages)})
		}
	}
	return all
}

// nextRuns returns what the next run of each job costs, and all of them until the cycle ends.
func nextRuns(f *forecast.Forecast, in report.Style) (all []page.NextRun) {
	for i := range f.Jobs {
		j := &f.Jobs[i]
		next := page.NextRun{Job: job.Shown(j.Job), Due: "by hand", Most: int64(j.Worst.Credits), Expected: int64(j.Expected.Credits),
			Runs: int64(j.Runs), Why: j.Problem}
		switch {
		case j.Disabled:
			next.Due = "disabled"
		case j.Paused != nil:
			next.Due = "paused"
		case j.After != "":
			next.Due = "after " + job.Shown(j.After)
		case len(j.Due) > 0:
			next.Due = in.Short(j.Due[0], f.At)
		}
		all = append(all, next)
	}
	return all
}

// cycleOf returns the credits left at the end of each day of the cycle, and now; nil without a cap.
func cycleOf(known *facts.Reader, month *facts.CapBalance) (*page.Cycle, error) {
	if month.Max == nil {
		return nil, nil
	}
	clock, zone := known.Store.Clock, known.Config.Timezone
	now := clock.Now().In(zone)
	from, to := known.Caps().CycleBounds()
	c := &page.Cycle{From: from.In(zone), To: to.In(zone), Max: int64(*month.Max + month.Bought())}
	left := c.Max
	for day := from.In(zone); day.Before(now); {
		held, err := known.Store.Ledger.Held(ledger.Cap{Scope: ledger.ScopeDay, Period: ledger.Day(day, zone)})
		if err != nil {
			return nil, err
		}
		left -= int64(held)
		if day = day.AddDate(0, 0, 1); day.Before(now) {
			c.Left = append(c.Left, page.Point{At: day, N: max(0, left)})
		}
	}
	c.Left = append(c.Left, page.Point{At: now, N: max(0, c.Max-int64(month.Held))})
	return c, nil
}
