//go:build iceberg

package iceberg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/iceberg-go/catalog"

	"outlierd/sinks/bucket"
)

// readRetries is the number of retries while a publication is under way, and retryDelay the time between them.
const (
	readRetries = 20
	retryDelay  = 250 * time.Millisecond
)

// Read finds the files of a writer in the lake, and verifies their checksums, without changing anything. It
// downloads those of a bucket to the folder dir. The error is [fs.ErrNotExist] if the lake was never written to.
func Read(ctx context.Context, o Options, dir string) (_ *Rows, err error) {
	c, err := openToRead(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for try := 0; ; try++ {
		rows, whole, err := c.read(ctx, dir)
		if whole || err != nil {
			return rows, c.explain(err)
		}
		if try == readRetries {
			return nil, c.explain(fmt.Errorf("a publication is not complete, or another program has changed the rows of %s: "+
				"the next publication of a day repairs it; %w", o.Instance, ErrRebuild))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryDelay):
		}
	}
}

// read finds the files of all tables. It reports whether they are those of one publication.
func (c *Copy) read(ctx context.Context, dir string) (_ *Rows, whole bool, err error) {
	shown, err := c.shown(ctx)
	if err != nil {
		return nil, false, err
	}
	rows := &Rows{Has: shown.Marks, files: map[string][]string{}}
	if shown.Files == nil {
		return rows, true, nil // this writer has published nothing
	}
	names := map[*lakeTable][]string{}
	for _, l := range c.tables {
		if err := l.load(ctx); err != nil {
			return nil, false, err
		}
		own, err := l.find(ctx)
		if err != nil {
			return nil, false, err
		}
		for _, address := range sortedKeys(own) {
			names[l] = append(names[l], strings.TrimPrefix(address, l.address("")))
		}
		if digest(names[l]) != shown.Files[l.name()] {
			return nil, false, nil
		}
	}
	for l, names := range names {
		for _, name := range names {
			path, err := l.fetch(name, filepath.Join(dir, l.name(), filepath.Base(name)))
			if err != nil {
				return nil, false, fmt.Errorf("read table %s: %s: %w", l.name(), name, err)
			}
			rows.files[l.of.Name] = append(rows.files[l.of.Name], path)
		}
	}
	return rows, true, nil
}

// fetch verifies a file and returns the path of a local one with its content: the file itself, or the new file to.
func (l *lakeTable) fetch(name, to string) (path string, err error) {
	content, err := l.files.ReadFile(l.address(name))
	sum := sha256.Sum256(content)
	if err == nil && !strings.HasSuffix(name, "-"+hex.EncodeToString(sum[:])[:sumLetters]+".parquet") {
		err = errors.New("it is damaged: it does not have the checksum of its name")
	}
	_, ofBucket := errors.AsType[*bucket.FileError](err)
	switch {
	case ofBucket && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case err != nil:
		return "", fmt.Errorf("%v: bring the file back; %w", err, ErrRebuild)
	case l.files.bucket == nil:
		return l.files.nameOf(l.address(name)), nil
	}
	return to, writeLocal(to, content)
}

// Probe checks that the lake is readable: it reads the catalog, and the manifests of one table.
func Probe(ctx context.Context, o Options) error {
	c, err := openToRead(ctx, o)
	if err != nil {
		return err
	}
	if err = c.last().load(ctx); err == nil {
		_, err = c.last().find(ctx)
	}
	return errors.Join(c.explain(err), c.Close())
}

// openToRead opens a lake without creating anything. The error is [fs.ErrNotExist] if it does not exist.
func openToRead(ctx context.Context, o Options) (*Copy, error) {
	if !strings.Contains(o.Catalog, "://") {
		if _, err := os.Stat(o.Catalog); err != nil {
			return nil, err
		}
	}
	c := New(nil, o)
	if err := c.openPlace(ctx); err != nil {
		return nil, err
	}
	exists, err := c.place.CheckTableExists(ctx, c.last().id())
	if errors.Is(err, catalog.ErrNoSuchNamespace) || err == nil && !exists {
		err = fmt.Errorf("namespace %s of the lake %s: %w", o.Namespace, c.place.name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(c.explain(c.place.plain(err)), c.Close())
	}
	return c, nil
}
