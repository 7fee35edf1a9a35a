package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"outlierd/sync/engine"
	"outlierd/sync/job"
	"outlierd/sync/state"
)

// glance lets work look at what is on record, also beside an instance that is running.
// Nothing is sent, and nothing changes. Where no job ever ran, the record is empty.
func (o *options) glance(ctx context.Context, config *job.Config, work func(*program) error) (err error) {
	log, err := o.logger()
	if err != nil {
		return err
	}
	p := &program{Engine: &engine.Engine{Config: config, Log: log, IDs: seedsOnce(config)}}
	defer func() { err = errors.Join(err, p.Close()) }()
	folder := filepath.Join(config.Data, "state")
	if err := p.peek(ctx, folder); err != nil {
		return unreadable(err, folder)
	}
	if err := p.openPace(folder); err != nil {
		return err
	}
	return work(p)
}

// glanceOr is glance, and answers by a query over the published tables where the state belongs
// to another user or is missing.
func (o *options) glanceOr(ctx context.Context, config *job.Config, query string, work func(*program) error) error {
	look := func() error { return o.glance(ctx, config, work) }
	return o.orPublished(config, look, func() error { return o.ask(ctx, config, query) })
}

// peek opens the state to read. A record of an earlier version is brought up to date
// first, if nobody else holds it.
func (p *program) peek(ctx context.Context, folder string) error {
	seen, err := state.Peek(ctx, folder, stateOptions(p.Config))
	if older, is := errors.AsType[*state.OlderError](err); is {
		store, failed := state.Open(ctx, folder, stateOptions(p.Config))
		if failed != nil {
			return errors.Join(older, failed)
		}
		if err := store.Close(); err != nil {
			return err
		}
		seen, err = state.Peek(ctx, folder, stateOptions(p.Config))
	}
	if errors.Is(err, fs.ErrNotExist) {
		_, err := p.invent(ctx)
		return err
	}
	if err != nil {
		return err
	}
	p.Store = seen
	p.closers = append(p.closers, seen.Close)
	return nil
}

// invent makes a record in which nothing ever happened, in a temporary folder.
func (p *program) invent(ctx context.Context) (folder string, err error) {
	folder, err = os.MkdirTemp("", "outlierd-")
	if err != nil {
		return "", err
	}
	p.closers = append(p.closers, func() error { return os.RemoveAll(folder) })
	p.Store, err = state.Open(ctx, folder, stateOptions(p.Config))
	if err != nil {
		return "", err
	}
	p.closers = append(p.closers, p.Store.Close)
	return folder, nil
}

// formerly gives the jobs of the configuration back the names under which the record
// knows them, where no run has carried a rename out yet, and returns what they are
// called now, by their former names.
func (p *program) formerly() (now map[string]string, err error) {
	now = map[string]string{}
	for i := range p.Config.Jobs {
		spec := &p.Config.Jobs[i]
		if spec.Was == "" || p.Config.Job(spec.Was) != nil {
			continue
		}
		done, err := p.Store.Renamed(spec.Was, spec.Name)
		if err != nil {
			return nil, err
		}
		if !done {
			now[spec.Was] = spec.Name
		}
	}
	for was, is := range now {
		for i := range p.Config.Jobs {
			spec := &p.Config.Jobs[i]
			if spec.Name == is {
				spec.Name = was
			}
			if spec.After == is {
				spec.After = was
			}
		}
	}
	return now, nil
}

// stateOptions are what a record has to know of a configuration.
func stateOptions(config *job.Config) state.Options {
	return state.Options{
		Service: config.Service.URL, Location: config.Timezone, Renews: config.Budget.Renews, Version: version(), Judge: engine.Judge(),
	}
}
