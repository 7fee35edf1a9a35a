package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
		if b.remote, err = b.readRemote(ctx); err != nil {
			return err
		}
	}
	r, now := b.remote, b.now().UTC()
	next := manifest{
		Manifest: inBucket(folder), Owner: r.record.Owner, Commit: r.root.Commit + 1, Copied: now.Format(time.RFC3339),
	}
	missing, surplus := r.planChanges(&next, now, grace)
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
	if r.files, err = openObjects(b.options); err != nil {
		return nil, err
	}
	if r.root, r.etag, err = r.files.readManifest(ctx); err != nil {
		return nil, err
	}
	// After the manifest, because a daemon that commits meanwhile writes the record first.
	if r.record, err = readRecord(b.options.Record); err != nil {
		return nil, err
	}
	if err := b.checkOwner(r.root, r.record); err != nil {
		return nil, err
	}
	r.sizes, err = r.files.listObjects(ctx)
	return r, err
}

// openObjects opens the objects of a copy. Their errors have names: the address is in the message of the copy.
func openObjects(o Options) (*Files, error) {
	c, prefix, err := openClient(o)
	return &Files{client: c, prefix: prefix}, err
}

// readManifest returns the manifest and its version. They are the zero values if there is none.
func (f *Files) readManifest(ctx context.Context) (m manifest, version string, err error) {
	text, version, err := f.ReadFile(ctx, parquet.ManifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return m, "", nil
	}
	if err == nil {
		m, err = parseManifest(text)
	}
	return m, version, err
}

// listObjects returns the sizes, in bytes, of the objects of copies, by name. Of those that were not uploaded whole it
// returns incompleteSize, so that they are uploaded again or deleted: the store would charge for the parts.
func (f *Files) listObjects(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	for file, err := range f.Below(ctx, "") {
		if err != nil {
			return nil, err
		}
		if objectName().MatchString(file.Name) {
			sizes[file.Name] = file.Bytes
		}
	}
	return sizes, nil
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

// planChanges returns the objects of the manifest next that the bucket lacks or has with another size, and those to
// delete. It adds to next those that are kept because grace has not passed since they were in a manifest.
func (r *remote) planChanges(next *manifest, now time.Time, grace time.Duration) (missing []parquet.File, surplus []string) {
	wanted, since := next.All(), map[string]time.Time{}
	for name := range r.root.All() {
		since[name] = now
	}
	for _, old := range r.root.Superseded {
		since[old.Name] = old.Since
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if size, ok := r.sizes[name]; !ok || size != wanted[name].Bytes {
			missing = append(missing, wanted[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.sizes)) {
		_, again := wanted[name]
		removed, known := since[name]
		switch {
		case again:
		case known && now.Sub(removed) < grace:
			next.Superseded = append(next.Superseded, superseded{name, removed})
		default:
			surplus = append(surplus, name)
		}
	}
	return missing, surplus
}

// eachAtOnce calls do for several items at once, until the first error.
func eachAtOnce[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, item := range items {
		work.Go(func() error { return do(ctx, item) })
	}
	return work.Wait()
}

func (b *Bucket) uploadObjects(ctx context.Context, objects []parquet.File) error {
	err := eachAtOnce(ctx, objects, func(ctx context.Context, o parquet.File) error {
		path := filepath.Join(b.dir, filepath.FromSlash(fileOf(o.Name)))
		if err := parquet.VerifyFile(path, path, o.SHA256); err != nil {
			return err
		}
		return b.remote.files.Put(ctx, path, o.Name)
	})
	if err != nil {
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
	etag, err := b.remote.files.Replace(ctx, parquet.ManifestName, text, b.remote.etag)
	if err != nil {
		return err
	}
	b.remote.root, b.remote.etag = next, etag
	return nil
}

func (b *Bucket) removeObjects(ctx context.Context, names []string) error {
	if err := eachAtOnce(ctx, names, b.remote.files.Remove); err != nil {
		return err
	}
	for _, name := range names {
		delete(b.remote.sizes, name)
	}
	return nil
}
