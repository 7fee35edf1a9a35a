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

// Grace is how long an object is kept after it was removed from the manifest, for readers that have
// read an earlier manifest.
const Grace = time.Hour

// atOnce is the number of concurrent uploads or deletions.
const atOnce = 4

// Bucket keeps the copy of a folder in a bucket up to date. It is used by one goroutine at a time.
type Bucket struct {
	dir     string
	options Options
	remote  *remote // cached; nil before the first update and after a failed one

	now func() time.Time // the clock; tests replace it
}

// remote is the content of a bucket.
type remote struct {
	files  *Files
	record record
	root   manifest         // the manifest; the zero value if there is none
	etag   string           // of the manifest; "" if there is none
	sizes  map[string]int64 // object → bytes, of objects of this package
}

// New returns the bucket of the folder dir. It does not use the network.
func New(dir string, o Options) *Bucket { return &Bucket{dir: dir, options: o, now: time.Now} }

// Update copies what the folder has published to the bucket. Objects that are no longer published are
// deleted after grace.
func (b *Bucket) Update(ctx context.Context, grace time.Duration) error {
	err := b.updateCopy(ctx, grace)
	if err != nil {
		b.remote = nil
		return fmt.Errorf("copy to %s: %w", b.options.Address, err)
	}
	return nil
}

func (b *Bucket) updateCopy(ctx context.Context, grace time.Duration) error {
	folder, err := parquet.ReadPublished(b.dir)
	if err != nil {
		return err
	}
	if b.remote == nil {
		if b.remote, err = b.readRemote(ctx); err == nil {
			err = b.remote.files.abortObjects(ctx)
		}
		if err != nil {
			return err
		}
	}
	r, now := b.remote, b.now().UTC()
	next := manifest{
		Manifest: inBucket(folder), Owner: r.record.Owner, Commit: r.root.Commit + 1, Copied: now.Format(time.RFC3339),
	}
	next.Superseded = r.superseded(next, now, grace)
	missing, surplus := r.missingObjects(next), r.surplusObjects(next)
	if len(missing)+len(surplus) == 0 && sameObjects(r.root.Manifest, next.Manifest) {
		return nil
	}
	if err := b.uploadObjects(ctx, missing); err != nil {
		return err
	}
	if !sameObjects(r.root.Manifest, next.Manifest) {
		if err := b.commitManifest(ctx, next); err != nil {
			return err
		}
	}
	return b.removeObjects(ctx, surplus)
}

// readRemote reads the content of the bucket. It returns an error if another data folder writes to it.
func (b *Bucket) readRemote(ctx context.Context) (r *remote, err error) {
	r = &remote{}
	if r.record, err = readRecord(b.options.Record); err != nil {
		return nil, err
	}
	if r.files, err = openObjects(b.options); err != nil {
		return nil, err
	}
	if r.root, r.etag, err = r.files.readManifest(ctx); err != nil {
		return nil, err
	}
	if err := b.checkOwner(r.root, r.record); err != nil {
		return nil, err
	}
	r.sizes, err = r.files.listObjects(ctx)
	return r, err
}

// checkOwner returns an error if another data folder, or a copy of this one, has written the manifest.
func (b *Bucket) checkOwner(root manifest, r record) error {
	const remedy = "use another prefix, or, if no other outlierd writes there, delete %s there and run again"
	switch {
	case root.Version == 0:
		return nil
	case root.Owner != r.Owner:
		return fmt.Errorf("another data folder writes there: "+remedy, parquet.ManifestName)
	case root.Commit > r.Commits[b.options.Address]:
		return fmt.Errorf("it has commits that this data folder has not made: a copy of the folder writes there, "+
			"or this folder is an old copy; "+remedy, parquet.ManifestName)
	}
	return nil
}

// superseded returns the objects that are not in the manifest next, but are kept because grace has not
// passed.
func (r *remote) superseded(next manifest, now time.Time, grace time.Duration) (all []superseded) {
	wanted, since := next.All(), map[string]time.Time{}
	for name := range r.root.All() {
		since[name] = now
	}
	for _, old := range r.root.Superseded {
		since[old.Name] = old.Since
	}
	for _, name := range slices.Sorted(maps.Keys(since)) {
		_, again := wanted[name]
		_, exists := r.sizes[name]
		if !again && exists && now.Sub(since[name]) < grace {
			all = append(all, superseded{name, since[name]})
		}
	}
	return all
}

// missingObjects returns the objects of a manifest that the bucket lacks or has with another size.
func (r *remote) missingObjects(next manifest) (all []parquet.File) {
	wanted := next.All()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if size, ok := r.sizes[name]; !ok || size != wanted[name].Bytes {
			all = append(all, wanted[name])
		}
	}
	return all
}

// surplusObjects returns the objects to delete: all that are neither in the manifest next nor kept as
// superseded.
func (r *remote) surplusObjects(next manifest) (names []string) {
	stay := map[string]bool{}
	for name := range next.All() {
		stay[name] = true
	}
	for _, s := range next.Superseded {
		stay[s.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(r.sizes)) {
		if !stay[name] {
			names = append(names, name)
		}
	}
	return names
}

func (b *Bucket) uploadObjects(ctx context.Context, objects []parquet.File) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, o := range objects {
		work.Go(func() error {
			return b.remote.files.uploadFile(ctx, filepath.Join(b.dir, filepath.FromSlash(fileOf(o.Name))), o)
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for _, o := range objects {
		b.remote.sizes[o.Name] = o.Bytes
	}
	return nil
}

// commitManifest replaces the manifest. It writes the commit number to the record first, so that the record is
// never behind the bucket, even after a kill.
func (b *Bucket) commitManifest(ctx context.Context, next manifest) error {
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	b.remote.record.Commits[b.options.Address] = next.Commit
	if err := b.remote.record.writeFile(b.options.Record); err != nil {
		return err
	}
	etag, err := b.remote.files.replace(ctx, parquet.ManifestName, text, b.remote.etag)
	if err != nil {
		return err
	}
	b.remote.root, b.remote.etag = next, etag
	return nil
}

func (b *Bucket) removeObjects(ctx context.Context, names []string) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, name := range names {
		work.Go(func() error { return b.remote.files.remove(ctx, name) })
	}
	if err := work.Wait(); err != nil {
		return err
	}
	for _, name := range names {
		delete(b.remote.sizes, name)
	}
	return nil
}
