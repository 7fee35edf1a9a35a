package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/cmd/outlierd/report"
	"outlierd/cmd/outlierd/term"
	"outlierd/cmd/outlierd/thumbnails"
	"outlierd/outlier"
	"outlierd/outlier/simulator"
	"outlierd/sinks/duckdb/database"
	"outlierd/sinks/duckdb/query"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/marks"
	"outlierd/sync/notify"
	"outlierd/sync/runs"
	"outlierd/sync/serve"
	"outlierd/sync/state"
	"outlierd/sync/store"
)

// Periods of the page Now, and how much it shows.
const (
	lookBack         = 7 * 24 * time.Hour
	maxNotifications = 10
	lastRuns         = 7  // of all jobs
	sparkRuns        = 12 // of each job
	maxDue           = 8  // due times of a job within a day
	slowLast         = time.Minute
)

// newTables returns the published tables of a daemon until ctx ends.
func newTables(ctx context.Context, p *program, zone *time.Location) *page.Tables {
	tables := page.NewTables(published(p.Engine.Config), zone)
	context.AfterFunc(ctx, tables.Close)
	tables.Marks = page.MarksIn(p.Engine.Store.DB)
	return tables
}

// newSite returns the page of a daemon; nil if it serves none.
func newSite(ctx context.Context, p *program, tables *page.Tables) *page.Site {
	e := p.Engine
	if e.Config.Daemon.Listen == "" || e.Config.Daemon.UI == job.UIOff {
		return nil
	}
	temporary := func() (*temporary, error) { return newTemporary(p.inUse.Load()) }
	sources := newSources(tables, p.inUse.Load, temporary, p.read, e.Log)
	if e.Config.Daemon.UI == job.UIFull {
		sources.Offer, sources.Views = p.offerAction, tables.Views
		sources.Mark = func(ctx context.Context, edit marks.Edit) error {
			_, err := serve.EditMarks{Edit: edit}.Do(ctx, e)
			return forPeople(ctx, err)
		}
		sources.SaveView = func(old, name, address string) error {
			return forPeople(ctx, saveView(e.Store.DB, old, name, address))
		}
	}
	return page.New(ctx, sources, e.Config.Daemon.Token.Reveal(), e.Log)
}

// saveView saves a view, renames the old one, or deletes it if the name is empty.
func saveView(db *store.Store, old, name, address string) error {
	return db.Update(func(tx *store.Tx) error {
		switch {
		case name == "":
			return marks.DeleteView(tx, old)
		case old != "":
			return marks.RenameView(tx, old, name)
		}
		return marks.SaveView(tx, marks.View{Name: name, Address: address})
	})
}

// newSources returns what a page shows: the published tables, and the state if it can be read.
func newSources(
	tables *page.Tables, config func() *job.Config, temporary func() (*temporary, error), read reading, log *slog.Logger,
) page.Sources {
	sources := page.Sources{
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
		Now: func(context.Context) (*page.Now, error) {
			return &page.Now{Status: forecast.Status{At: time.Now()}, In: report.Style{Zone: tables.Zone}}, nil
		},
	}
	if read != nil {
		(&looking{read: read, zone: tables.Zone, tables: tables}).addTo(&sources)
	}
	if pictures := newThumbnails(config(), tables, log); pictures != nil {
		sources.Thumbnails, sources.ThumbnailTrouble = pictures.ServeHTTP, pictures.Trouble
		sources.ImageSources = pictures.ImageSources()
	}
	return sources
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
	sources.Money = l.readMoney
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
	now.Notifications, err = notify.Recent(store.DB, s.At.Add(-lookBack), maxNotifications)
	return now, err
}

// dueTimes returns the due times of a job within a day.
func dueTimes(spec *job.Spec, now time.Time) (all []time.Time) {
	for at := spec.Next(now, now.Location()); !at.IsZero() && at.Sub(now) < 24*time.Hour && len(all) < maxDue; at = spec.Next(at, now.Location()) {
		all = append(all, at)
	}
	return all
}

// listPrices returns the most that a run of each job may cost now.
func listPrices(ctx context.Context, p *program) map[string]string {
	all := map[string]string{}
	for i := range p.Engine.Config.Jobs {
		spec := &p.Engine.Config.Jobs[i]
		next, err := p.forecasts().Next(ctx, spec, true)
		switch {
		case err != nil: // the page that offers the run says why
		case next.Most == 0:
			all[spec.Name] = "free"
		default:
			all[spec.Name] = "≤ " + term.Count(next.Most, "credit")
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
		m.Cycle = cycleOf(seen.Engine.Facts(), &m.Month)
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

// cycleOf returns the billing cycle with the credits left now; nil without a cap.
func cycleOf(known *facts.Reader, month *facts.CapBalance) *page.Cycle {
	if month.Max == nil {
		return nil
	}
	caps, zone := known.Caps(), known.Config.Timezone
	from, to := caps.CycleBounds()
	most := int64(*month.Raised())
	return &page.Cycle{From: from.In(zone), To: to.In(zone), Now: caps.Clock.Now().In(zone),
		Max: most, Left: max(0, most-int64(month.Held))}
}

// listQuestions returns the questions of the job file, followed by common ones.
func listQuestions(config *job.Config) (all []page.Question) {
	for _, q := range config.Questions {
		all = append(all, page.Question{Name: q.Name, SQL: q.SQL})
	}
	for _, q := range query.Questions {
		all = append(all, page.Question(q))
	}
	return all
}

// writeFeed returns the result of a question as an Atom feed.
func writeFeed(ctx context.Context, config *job.Config, q page.Question, published time.Time) ([]byte, error) {
	find := seeds(config)
	f := notify.Feed{Name: q.Name, SQL: q.SQL, Self: q.Feed(), Page: q.Address(), Published: published}
	feed, err := f.Write(ctx, func(ctx context.Context, sql string) ([]string, error) { return find(ctx, sql, "") })
	if err != nil && ctx.Err() == nil && !errors.Is(err, notify.ErrNoFeed) {
		return nil, serve.Refuse(http.StatusConflict, "%w", err)
	}
	return feed, err
}

// makeSnippets returns the lines that run a query on the published file in other programs.
func makeSnippets(published, sql string) []page.Snippet {
	path, err := filepath.Abs(published)
	if err != nil || published == "" {
		return nil
	}
	return []page.Snippet{
		{Program: "DuckDB", Lines: fmt.Sprintf("ATTACH %s AS outlierd (READ_ONLY);\nUSE outlierd;\n%s;", database.Text(path), sql)},
		{Program: "Python", Lines: fmt.Sprintf("import duckdb\n\nwith duckdb.connect(%s, read_only=True) as db:\n"+
			"    df = db.execute(%s).df()", quoted(path), quoted(sql))},
	}
}

// downloadResult returns the whole result of a query in a format of export. A process that can be killed writes
// it to a temporary file, so that errors are known before the first byte is sent.
func downloadResult(ctx context.Context, tables *page.Tables, temporary func() (*temporary, error), sql, format string) (_ io.ReadCloser, err error) {
	if _, err := tables.PublishedAt(); err != nil {
		return nil, err
	}
	temp, err := temporary()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, temp.Close()) }()
	file, err := os.CreateTemp(temp.path, "result-*")
	if err != nil {
		return nil, err
	}
	process := newDownloader(ctx, tables.Path, format, temp.path, tables.Zone)
	var said bytes.Buffer
	process.Stdin, process.Stdout, process.Stderr = strings.NewReader(sql), file, &said
	err = process.Run()
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
		return file, err
	}
	err = errors.Join(err, file.Close())
	if isA[*exec.ExitError](err) && ctx.Err() == nil {
		why := strings.TrimPrefix(strings.TrimSpace(said.String()), "outlierd: ")
		if why == "" || slices.Contains([]string{"Killed", "killed"}, why) {
			why = fmt.Sprintf("the process that ran the SQL ended (%v), "+
				"possibly because memory or disk space ran out", err)
		}
		err = serve.Refuse(http.StatusBadRequest, "%s", why)
	}
	return nil, errors.Join(ctx.Err(), err)
}

// listRuns returns a page of the runs that match a filter.
func listRuns(store *state.Store, f runs.Filter, zone *time.Location) (*page.Runs, error) {
	all, err := listLast(store, f, page.RunsPerPage+1, zone)
	shown := min(len(all), page.RunsPerPage)
	return &page.Runs{Runs: all[:shown], Statuses: statuses, More: shown < len(all)}, err
}

// listLast returns the last runs that match a filter, the newest first.
func listLast(store *state.Store, f runs.Filter, most int, zone *time.Location) ([]runs.Run, error) {
	all, err := store.Runs.List(f, most)
	for i := range all {
		all[i] = localize(all[i], zone)
	}
	return all, err
}

// localize returns a run with its times in the zone of the page.
func localize(r runs.Run, zone *time.Location) runs.Run {
	r.Started = r.Started.In(zone)
	return r
}

// readRun returns one run with its searches and a page of its calls.
func readRun(store *state.Store, id string, number int, zone *time.Location) (*page.RunDetails, error) {
	row, err := store.Runs.Get(id)
	if err == nil && row == nil {
		err = fmt.Errorf("run %.40q: %w", id, page.ErrUnknown)
	}
	if err != nil {
		return nil, err
	}
	d, err := runOf(store, row)
	if err != nil {
		return nil, err
	}
	d.Run = localize(d.Run, zone)
	all := &page.RunDetails{Run: d, In: report.Style{Zone: zone}}
	all.Attempts, all.Count, err = store.Calls.PartOfRun(id, (number-1)*page.CallsPerPage, page.CallsPerPage)
	for i := range all.Attempts {
		all.Attempts[i].SentAt = all.Attempts[i].SentAt.In(zone)
	}
	return all, err
}

// newThumbnails returns the pictures of the page; nil with `daemon.thumbnails: off`. Nothing is fetched
// before somebody looks at a page. Browsers cannot reach the simulator's pictures, so these are always
// proxied.
func newThumbnails(config *job.Config, tables *page.Tables, log *slog.Logger) *thumbnails.Thumbnails {
	d := config.Daemon
	with := thumbnails.Options{Find: tables.Images, Hosts: thumbnails.Hosts, Data: config.Data,
		MaxCache: d.ThumbnailsCache, Log: log}
	switch {
	case d.Thumbnails == job.ThumbnailsOff:
		return nil
	case d.Thumbnails == job.ThumbnailsProxy || config.Service.Simulated():
		with.Hosts = append([]string{simulator.PictureHost}, thumbnails.Hosts...)
		with.Transport = imageHosts{thumbnails.NewTransport(d.ThumbnailsProxy)}
	}
	return thumbnails.New(with)
}

// imageHosts sends requests to the image hosts, and has the pictures of simulated videos drawn.
type imageHosts struct{ network http.RoundTripper }

func (h imageHosts) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Hostname() == simulator.PictureHost {
		return simulator.Pictures{}.RoundTrip(r)
	}
	return h.network.RoundTrip(r)
}
