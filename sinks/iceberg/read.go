//go:build iceberg

package iceberg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/apache/iceberg-go/catalog"
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
	defer func() { err = errors.Join(err, c.place.close()) }()
	for try := 0; ; try++ {
		rows, whole, err := c.read(ctx, dir)
		if whole || err != nil {
			return rows, c.explain(err)
		}
		if try == readRetries {
			return nil, c.explain(errors.New("a publication is not complete: the next one completes it"))
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(retryDelay):
		}
	}
}

// read finds the files of all tables. It reports whether they are of one publication.
func (c *Copy) read(ctx context.Context, dir string) (_ *Rows, whole bool, err error) {
	var digests []string
	for _, l := range c.tables {
		if err := l.reload(ctx); err != nil {
			return nil, false, err
		}
		digests = append(digests, l.table.Properties()[c.property(filesName)])
	}
	shown, err := c.shown(ctx)
	if err != nil {
		return nil, false, err
	}
	rows := &Rows{Has: shown.marks(), files: map[string][]string{}}
	if shown == (note{}) {
		return rows, true, nil // this writer has published nothing
	}
	if digest(digests) != shown.Files {
		return nil, false, nil
	}
	for _, l := range c.tables {
		if rows.files[l.of.Name], err = l.read(ctx, filepath.Join(dir, l.name())); err != nil {
			return nil, false, fmt.Errorf("read table %s: %w", l.name(), err)
		}
	}
	return rows, true, nil
}

// read returns the paths of the files of this writer.
func (l *lakeTable) read(ctx context.Context, dir string) (paths []string, err error) {
	own, err := l.find(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, address := range sortedKeys(own.data) {
		names = append(names, strings.TrimPrefix(address, l.address("")))
	}
	if len(own.deletes) > 0 || digest(names) != l.table.Properties()[l.copy.property(filesName)] {
		return nil, fmt.Errorf("another program has changed the rows of %s: %w", l.copy.options.Instance, ErrRebuild)
	}
	for i, name := range names {
		path, err := l.fetch(name, filepath.Join(dir, fmt.Sprintf("%d.parquet", i)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// fetch verifies a file and returns its path: its own in a folder, that of a copy from a bucket.
func (l *lakeTable) fetch(name, to string) (path string, err error) {
	from, err := l.files.Open(l.address(name))
	if err != nil {
		return "", unreadable(err)
	}
	defer from.Close()
	sum := sha256.New()
	if _, local := l.files.(folder); local {
		path = pathOf(l.address(name))
		_, err = io.Copy(sum, from)
	} else {
		path = to
		err = copyTo(to, io.TeeReader(from, sum))
	}
	if err != nil {
		return "", unreadable(err)
	}
	base := strings.TrimSuffix(name, ".parquet")
	if base[max(0, len(base)-sumLetters):] != hex.EncodeToString(sum.Sum(nil))[:sumLetters] {
		return "", unreadable(errors.New("it is damaged: it does not have the checksum of its name"))
	}
	return path, nil
}

func copyTo(path string, from io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// Probe checks that the lake is readable: it reads the catalog, and the manifests of one table.
func Probe(ctx context.Context, o Options) error {
	c, err := openToRead(ctx, o)
	if err != nil {
		return err
	}
	l := c.tables[0]
	if err = l.reload(ctx); err == nil {
		_, err = l.find(ctx)
	}
	return errors.Join(c.explain(err), c.place.close())
}

// openToRead opens a lake without creating anything. The error is [fs.ErrNotExist] if it does not exist.
func openToRead(ctx context.Context, o Options) (*Copy, error) {
	if !strings.Contains(o.Catalog, "://") {
		if _, err := os.Stat(o.Catalog); err != nil {
			return nil, err
		}
	}
	p, err := openPlace(ctx, o)
	if err != nil {
		return nil, err
	}
	c := newCopy(o, p)
	exists, err := p.CheckTableExists(ctx, c.writers.id())
	if errors.Is(err, catalog.ErrNoSuchNamespace) || err == nil && !exists {
		err = fmt.Errorf("namespace %s of the lake %s: %w", o.Namespace, p.name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, errors.Join(c.explain(p.plain(err)), p.close())
	}
	return c, nil
}
