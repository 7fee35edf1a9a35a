package main

import (
	"context"

	"outlierd/cmd/outlierd/page"
	"outlierd/sync/forecast"
	"outlierd/sync/job"
)

// site is the page of a daemon; nil with `daemon.ui: off`. It shows what `status` shows.
func (o *options) site(ctx context.Context, p *program) *page.Site {
	if p.Engine.Config.Daemon.UI == job.UIOff {
		return nil
	}
	return page.New(ctx, func(ctx context.Context) (now *page.Now, err error) {
		// The configuration and the runs are the schedule's: they are looked at in its turn.
		err = p.Engine.Between(ctx, func(context.Context) error {
			s, err := p.forecasts().Status()
			if err == nil {
				s.Disk, err = diskOf(p.Engine.Store.DB)
			}
			if err == nil {
				now = nowOf(s, &planPrinter{zone: o.zone})
			}
			return err
		})
		return now, err
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
