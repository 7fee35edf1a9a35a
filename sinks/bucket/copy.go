package bucket

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"outlierd/sinks/parquet"
)

// Grace is how long an object stays that the manifest names no longer: readers who began with the
// manifest before may still fetch it.
const Grace = time.Hour

// atOnce is how many objects are uploaded or deleted at a time.
const atOnce = 4

// triedAgain is what happens to a copy after a fault that passes.
const triedAgain = "it is tried again"

// Copy keeps the copy of a folder in a bucket up to date. It is used by one goroutine at a time.
type Copy struct {
	dir     string
	options Options
	there   *there // nil before the first update, and after one that failed

	now func() time.Time // tests set it
}

// there is what a bucket has.
type there struct {
	store  *store
	record record
	root   manifest         // the zero value if there is none
	etag   string           // of the root; "" if there is none
	sizes  map[string]int64 // of our objects
}

// NewCopy is the copy of the folder dir. It does not use the network.
func NewCopy(dir string, o Options) *Copy { return &Copy{dir: dir, options: o, now: time.Now} }

// Update makes the bucket hold what the folder has published. Objects that are in it no longer
// are deleted once grace has gone by.
func (c *Copy) Update(ctx context.Context, grace time.Duration) error {
	err := c.update(ctx, grace)
	if err != nil {
		c.there = nil
		return fmt.Errorf("copy to %s: %w", c.options.Address, err)
	}
	return nil
}

func (c *Copy) update(ctx context.Context, grace time.Duration) error {
	folder, err := parquet.ReadPublished(c.dir)
	if err != nil {
		return err
	}
	if c.there == nil {
		if c.there, err = c.look(ctx); err != nil {
			return err
		}
	}
	t, now := c.there, c.now().UTC()
	next := manifest{
		Version: manifestVersion, Owner: t.record.Owner, Commit: t.root.Commit + 1, Instance: folder.Instance,
		Watermark: folder.Watermark, Copied: now.Format(time.RFC3339), Tables: objectsOf(folder),
	}
	next.Superseded = t.superseded(next, now, grace)
	missing, surplus := t.missing(next), t.surplus(next)
	if len(missing)+len(surplus) == 0 && t.root.same(next) {
		return nil
	}
	if err := c.upload(ctx, missing); err != nil {
		return err
	}
	if !t.root.same(next) {
		if err := c.commit(ctx, next); err != nil {
			return err
		}
	}
	return c.remove(ctx, surplus)
}

// look reads what the bucket has, and refuses one that another data folder writes to.
func (c *Copy) look(ctx context.Context) (t *there, err error) {
	t = &there{}
	if t.record, err = readRecord(c.options.Record); err != nil {
		return nil, err
	}
	if t.store, err = openStore(c.options, triedAgain); err != nil {
		return nil, err
	}
	if t.root, t.etag, err = t.store.readManifest(ctx); err != nil {
		return nil, err
	}
	if err := c.owned(t.root, t.record); err != nil {
		return nil, err
	}
	if t.sizes, err = t.store.list(ctx); err != nil {
		return nil, err
	}
	return t, t.store.removeIncomplete(ctx)
}

// owned refuses the manifest of another data folder, or of a copy of this one.
func (c *Copy) owned(root manifest, r record) error {
	const remedy = "use another prefix, or, if no other outlierd writes there, delete %s there and run again"
	switch {
	case root.Version == 0:
		return nil
	case root.Owner != r.Owner:
		return fmt.Errorf("another data folder writes there: "+remedy, manifestName)
	case root.Commit > r.Commits[c.options.Address]:
		return fmt.Errorf("it has what this data folder has not written, so a copy of the folder writes there, or this is an old copy: "+
			remedy, manifestName)
	}
	return nil
}

// superseded are the objects that wait to be deleted once next is the manifest.
func (t *there) superseded(next manifest, now time.Time, grace time.Duration) (all []superseded) {
	wanted, since := next.names(), map[string]time.Time{}
	for name := range t.root.names() {
		since[name] = now
	}
	for _, old := range t.root.Superseded {
		since[old.Name] = old.Since
	}
	for _, name := range slices.Sorted(maps.Keys(since)) {
		_, again := wanted[name]
		_, there := t.sizes[name]
		if !again && there && now.Sub(since[name]) < grace {
			all = append(all, superseded{name, since[name]})
		}
	}
	return all
}

// missing are the objects of a manifest that are not there whole.
func (t *there) missing(next manifest) (all []object) {
	wanted := next.names()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if size, ok := t.sizes[name]; !ok || size != wanted[name].Bytes {
			all = append(all, wanted[name])
		}
	}
	return all
}

// surplus are the objects that go: those whose time is over, and those that no manifest named.
func (t *there) surplus(next manifest) (names []string) {
	stay := map[string]bool{}
	for name := range next.names() {
		stay[name] = true
	}
	for _, s := range next.Superseded {
		stay[s.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(t.sizes)) {
		if !stay[name] {
			names = append(names, name)
		}
	}
	return names
}

// same reports whether two manifests tell readers the same. The names have the checksums.
func (m *manifest) same(other manifest) bool {
	same := func(a, b object) bool { return a.Name == b.Name }
	return m.Version == other.Version && m.Watermark == other.Watermark && maps.EqualFunc(m.names(), other.names(), same)
}

func (c *Copy) upload(ctx context.Context, objects []object) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, o := range objects {
		work.Go(func() error {
			if err := c.there.store.upload(ctx, filepath.Join(c.dir, filepath.FromSlash(o.file)), o); err != nil {
				return fmt.Errorf("upload %s: %w", o.Name, err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for _, o := range objects {
		c.there.sizes[o.Name] = o.Bytes
	}
	return nil
}

// commit replaces the manifest, after it is on record that this may have happened.
func (c *Copy) commit(ctx context.Context, next manifest) error {
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	c.there.record.Commits[c.options.Address] = next.Commit
	if err := c.there.record.write(c.options.Record); err != nil {
		return err
	}
	etag, err := c.there.store.replaceManifest(ctx, text, c.there.etag)
	if err != nil {
		return fmt.Errorf("replace %s: %w", manifestName, err)
	}
	c.there.root, c.there.etag = next, etag
	return nil
}

func (c *Copy) remove(ctx context.Context, names []string) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, name := range names {
		work.Go(func() error {
			if err := c.there.store.remove(ctx, name); err != nil {
				return fmt.Errorf("delete %s, which is out of date: %w", name, err)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for _, name := range names {
		delete(c.there.sizes, name)
	}
	return nil
}
