package command

import (
	"context"
	"os"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/outlier/pace"
	"outlierd/sync/facts"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
	"outlierd/sync/ledger"
	"outlierd/sync/notify"
	"outlierd/sync/runs"
)

// Periods of the page Now.
const (
	lookBack          = 7 * 24 * time.Hour
	mostTroubles      = 10
	mostNotifications = 10
)

// site returns the page of a daemon; nil with `daemon.ui: off`. It shows the same as `status`.
func (o *options) site(ctx context.Context, p *program) *page.Site {
	if p.Engine.Config.Daemon.UI == job.UIOff {
		return nil
	}
	folder := stateFolder(p.Engine.Config) // an edit of the job file cannot change it
	// The state does not report on its own process.
	self := forecast.Process{PID: os.Getpid(), Command: "outlierd up", Since: time.Now()}
	zone := o.zone
	recorded := runsOnRecord{store: p.Engine.Store, zone: zone}
	look := func(ctx context.Context) (*page.Now, error) {
		var s *forecast.Status
		var cycle *page.Cycle
		var unconfirmed []runs.Scan
		err := p.read(func(seen *program) (err error) {
			if s, err = seen.forecasts().Status(); err == nil {
				s.Disk, err = diskOf(seen.Engine.Store.DB)
			}
			if err == nil {
				cycle, err = cycleOf(seen.Engine.Facts(), &s.Budget[0])
			}
			if err == nil {
				unconfirmed, err = unconfirmedScans(seen.Engine.Store)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		process := self
		s.Process = &process
		askProcess(ctx, folder, s.Process)
		now := nowOf(s, &planPrinter{zone: zone}, p.Engine.Pace.Status())
		now.Cycle = cycle
		for i := range unconfirmed {
			now.Scans = append(now.Scans, page.Scan{Intent: unconfirmed[i].Intent,
				Says: unconfirmedText(&unconfirmed[i], zone)})
		}
		if now.Troubles, err = recorded.troubles(s.At); err != nil {
			return nil, err
		}
		recent, err := notify.Recent(p.Engine.Store.DB, s.At.Add(-lookBack), mostNotifications)
		for _, t := range recent {
			now.Notifications = append(now.Notifications, page.Notification{
				At: t.Time.In(zone).Format("2006-01-02 15:04"), Title: t.Title, Text: t.Text, Targets: t.Targets,
				Waits: t.Waits,
			})
		}
		return now, err
	}
	tables := publishedTables{path: published(p.Engine.Config), zone: zone, temporary: func() (*temporary, error) {
		return newTemporary(p.inUse.Load(), downloadFolders)
	}}
	sources := page.Sources{
		Now: look, Found: tables.found, Runs: recorded.runs, Run: recorded.run, Video: tables.video,
		Channel: tables.channel, Tables: catalog(),
		Questions: func() []page.Question { return questions(p.inUse.Load()) }, Ask: tables.first,
		Download: tables.whole,
	}
	if pictures := newThumbnails(p.Engine.Config, tables, p.Engine.Log); pictures != nil {
		sources.Thumbnails, sources.ImageSources = pictures.ServeHTTP, pictures.ImageSources()
		sources.ThumbnailTrouble = pictures.Trouble
	}
	if p.Engine.Config.Daemon.UI == job.UIFull {
		do := actions{p}
		sources.Offer, sources.Do = do.offer, do.do
	}
	return page.New(ctx, sources, p.Engine.Config.Daemon.Token.Reveal(), p.Engine.Log)
}

// nowOf returns the status for the page, in the words of `status`.
func nowOf(s *forecast.Status, p *planPrinter, window pace.Status) *page.Now {
	n := &page.Now{At: p.at(s.At), Time: s.At, Process: p.process(s.Process), Notices: notable(s),
		Blocked: len(s.Refused) > 0}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		row := page.Job{Name: shown(j.Job), Last: p.lastRun(j, s.At), Due: p.nextDue(j, s.At), DueAt: j.Due,
			Doing: now(j), Why: j.Why}
		if j.Disabled || j.Paused != nil {
			row.DueAt = time.Time{}
		}
		if j.Doing == forecast.JobRunning {
			row.Working = j.Run
		}
		row.Queued, row.Paused = j.Queued > 0 && !j.Unlisted, j.Paused != nil && j.Paused.Job == j.Job
		row.Scheduled = !j.Disabled && (!j.Due.IsZero() || j.After != "")
		if j.Last != nil {
			row.Run = j.Last.Run
		}
		n.Jobs = append(n.Jobs, row)
	}
	for _, f := range p.standing(s) {
		if f.notice {
			n.Notices = append(n.Notices, f.text)
			continue
		}
		fact := page.Fact{Name: f.name, Text: f.text}
		switch cycle := &s.Budget[0]; {
		case f.name == "pace":
			fact.Meter = &page.Meter{Used: int64(window.Limit - window.Remaining), Of: int64(window.Limit)}
		case f.name == "budget" && cycle.Max != nil:
			fact.Meter = &page.Meter{Used: int64(cycle.Held), Of: int64(*cycle.Max + cycle.Bought())}
		}
		n.Facts = append(n.Facts, fact)
	}
	return n
}

// cycleOf returns the credits left at the end of each day of the cycle, and now; nil without a cap.
func cycleOf(known *facts.Reader, month *forecast.CapBalance) (*page.Cycle, error) {
	if month.Max == nil {
		return nil, nil
	}
	l, zone := known.Store.Ledger, known.Config.Timezone
	now := l.ServiceTime().In(zone)
	from, to := known.CycleBounds()
	c := &page.Cycle{From: from.In(zone), To: to.In(zone), Max: int64(*month.Max + month.Bought())}
	left := c.Max
	for day := from.In(zone); day.Before(now); {
		held, err := l.Counted(ledger.Cap{Scope: ledger.ScopeDay, Period: ledger.Day(day, zone)})
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
