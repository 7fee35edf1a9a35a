//go:build iceberg

package iceberg

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	icebergio "github.com/apache/iceberg-go/io"
)

// The library does not sync local files. After a power failure the catalog could refer to an empty
// file, so its file system is replaced by folder.
func init() {
	icebergio.Unregister("file")
	icebergio.Unregister("")
	local := func(context.Context, *url.URL, map[string]string) (icebergio.IO, error) { return folder{}, nil }
	icebergio.Register("file", local)
	icebergio.Register("", local)
}

// folder is the local file system. Files are durable once they are closed.
type folder struct{ icebergio.LocalFS }

var _ storage = folder{}

func pathOf(name string) string {
	if u, err := url.Parse(name); err == nil && u.Scheme == "file" {
		return u.Path
	}
	return name
}

// Create implements [icebergio.WriteFileIO].
func (folder) Create(name string) (icebergio.FileWriter, error) {
	path := pathOf(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	return &durable{f}, nil
}

// WriteFile implements [icebergio.WriteFileIO].
func (d folder) WriteFile(name string, content []byte) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(content))
	return errors.Join(err, f.Close())
}

// durable is a file that Close syncs together with its directory entry.
type durable struct{ *os.File }

// Close implements [io.Closer].
func (d *durable) Close() error {
	if err := errors.Join(d.File.Sync(), d.File.Close()); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(d.File.Name()))
}

// put links the file to its name, or copies it to another file system. The file has been synced, and does not
// change any more.
func (d folder) put(_ context.Context, from *os.File, name string) error {
	path := pathOf(name)
	unfinished := path + ".tmp"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if os.Link(from.Name(), unfinished) != nil {
		to, err := d.Create(unfinished)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, from)
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	// A rename to another link of the same file keeps both names.
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// openWarehouse prepares the warehouse and returns the URL below which tables are created. It is "" if
// the catalog chooses the location.
func openWarehouse(o Options) (string, error) {
	switch {
	case strings.HasPrefix(o.Warehouse, "s3://"):
		return openBucket(o)
	case o.isREST():
		return "", nil // the catalog's own, which may still be in a bucket
	}
	if err := os.MkdirAll(o.Warehouse, 0o755); err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "file", Path: o.Warehouse}).String(), nil
}
