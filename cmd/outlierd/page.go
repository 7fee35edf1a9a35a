package main

import (
	"context"
	"os"
	"time"

	"outlierd/cmd/outlierd/page"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
)

// site is the page of a daemon; nil with `daemon.ui: off`. It shows what `status` shows.
func (o *options) site(ctx context.Context, p *program) *page.Site {
	if p.Engine.Config.Daemon.UI == job.UIOff {
		return nil
	}
	folder := stateFolder(p.Engine.Config) // an edit of the job file cannot change it
	// The state does not tell a process about itself.
	self := forecast.Process{PID: os.Getpid(), Command: "outlierd up", Since: time.Now()}
	look := func(ctx context.Context) (*page.Now, error) {
		var s *forecast.Status
		// The configuration and the runs are the schedule's: they are looked at in its turn.
		err := p.Engine.Between(ctx, func(context.Context) (err error) {
			if s, err = p.forecasts().Status(); err == nil {
				s.Disk, err = diskOf(p.Engine.Store.DB)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		process := self
		s.Process = &process
		askProcess(ctx, folder, s.Process)
		return nowOf(s, &planPrinter{zone: o.zone}), nil
	}
	recorded := runsOnRecord{store: p.Engine.Store, zone: o.zone}
	tables := publishedTables{path: published(p.Engine.Config), zone: o.zone}
	return page.New(ctx, page.Sources{
		Now: look, Found: tables.found, Runs: recorded.runs, Run: recorded.run, Video: tables.video, Channel: tables.channel,
		Tables: catalog(), Questions: questions(), Ask: tables.first, Download: tables.whole,
	}, p.Engine.Log)
}

// nowOf is the status for a browser, in the words that `status` has for a terminal.
func nowOf(s *forecast.Status, p *planPrinter) *page.Now {
	n := &page.Now{At: p.at(s.At), Process: p.process(s.Process), Notices: notable(s)}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		n.Jobs = append(n.Jobs, page.Job{Name: j.Job, Last: p.lastRun(j, s.At), Due: p.nextDue(j, s.At), Doing: now(j), Why: j.Why})
	}
	for _, f := range p.standing(s) {
		if f.notice {
			n.Notices = append(n.Notices, f.text)
		} else {
			n.Facts = append(n.Facts, page.Fact{Name: f.name, Text: f.text})
		}
	}
	return n
}
