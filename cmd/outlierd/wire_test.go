package main

import (
	"os"
	"path/filepath"
	"testing"

	"outlierd/outlier"
	"outlierd/sync/state"
)

// opened is the program for the person's job file.
func (p *person) opened(work func(*program) error) {
	p.Helper()
	o := &options{world: world{out: p.Output(), err: p.Output(), env: p.env}, config: filepath.Join(p.dir, "jobs.yaml"), logLevel: "info", logFormat: "json"}
	o.block = &block{w: p.Output(), size: o.screen}
	config, err := o.load()
	if err == nil {
		err = o.with(p.Context(), config, work)
	}
	if err != nil {
		p.Error(err)
	}
}

func TestKeyIsReadAnewFromItsFile(t *testing.T) {
	p := &person{T: t, dir: t.TempDir(), env: os.LookupEnv}
	p.write(`{version: 1, service: {url: "https://service.example", key: "${file:key}"}, budget: {per_month: 10}, jobs: {tea: {search: {query: tea}}}}`)
	file := filepath.Join(p.dir, "key")
	hold := func(key string) {
		if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hold("the-first-one")
	p.opened(func(prog *program) error {
		hold("another-one")
		key, err := prog.Rekey()
		want, _ := outlier.NewKey("another-one")
		if err == nil && (key.Fingerprint() != want.Fingerprint() || key.Fingerprint() == prog.Client.Key.Fingerprint()) {
			t.Errorf("the key read anew is %s", key.Fingerprint())
		}
		return err
	})
}

func TestFileDecidesWhatStaysQueued(t *testing.T) {
	p := &person{T: t, dir: t.TempDir(), env: os.LookupEnv}
	file := func(job string) { p.write(`{version: 1, service: {url: "sim://"}, jobs: {` + job + `}}`) }
	queued := func() (n int) {
		p.opened(func(prog *program) (err error) {
			n, err = prog.Store.Queued(state.Filter{})
			return err
		})
		return n
	}
	file(`tea: {search: {query: tea}, enrich: {details: {}, comments: {}}}`)
	p.opened(func(prog *program) error {
		return prog.Store.Update(func(tx *state.Tx) error {
			_, err := tx.Enqueue([]state.Task{
				{Op: outlier.OpDetails, Entity: "v1", Job: "tea"}, {Op: outlier.OpComments, Entity: "v1", Job: "tea"},
				{Op: outlier.OpDetails, Entity: "v2", Job: "once:search"},
			})
			return err
		})
	})
	if n := queued(); n != 3 {
		t.Errorf("%d calls are queued while all are wanted", n)
	}
	file(`chai: {was: tea, search: {query: tea}, enrich: {details: {}}}`)
	if n := queued(); n != 2 {
		t.Errorf("%d calls are queued after comments were taken out and the job was renamed", n)
	}
	file(`mate: {search: {query: mate}}`)
	if n := queued(); n != 1 {
		t.Errorf("%d calls are queued after the job has gone", n)
	}
}
