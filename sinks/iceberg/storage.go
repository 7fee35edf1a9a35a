//go:build iceberg

package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	icebergio "github.com/apache/iceberg-go/io"

	"outlierd/internal/durable"
	"outlierd/sinks/bucket"
)

// storage is where the files of tables are: a folder or a bucket. Files have addresses, and never change.
type storage interface {
	read(ctx context.Context, address string) ([]byte, error)

	// write stores a small file. It is durable afterwards.
	write(ctx context.Context, address string, content []byte) error

	// put stores the local file at path.
	put(ctx context.Context, path, address string) error

	// fetch returns the path of a local file with the content: the file itself, or the new file to.
	fetch(ctx context.Context, address, to string) (path string, err error)

	// sizes returns the sizes of all files below an address, in bytes.
	sizes(ctx context.Context, below string) (map[string]int64, error)

	// remove deletes a file. It is not an error if there is none.
	remove(ctx context.Context, address string) error
}

// folder is the local file system.
type folder struct{}

func pathOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Scheme == "file" {
		return u.Path
	}
	return address
}

func (folder) read(_ context.Context, address string) ([]byte, error) {
	return os.ReadFile(pathOf(address))
}

func (folder) write(_ context.Context, address string, content []byte) error {
	path := pathOf(address)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, content, 0o644)
}

// put links the file, which is on the disk already, or copies it to another file system.
func (d folder) put(ctx context.Context, from, address string) error {
	path := pathOf(address)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := d.remove(ctx, address); err != nil {
		return err
	}
	if os.Link(from, path) == nil {
		return durable.Sync(filepath.Dir(path))
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return d.write(ctx, address, content)
}

func (folder) fetch(_ context.Context, address, _ string) (string, error) {
	_, err := os.Stat(pathOf(address))
	return pathOf(address), err
}

func (folder) sizes(_ context.Context, below string) (map[string]int64, error) {
	found := map[string]int64{}
	err := filepath.WalkDir(pathOf(below), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			found[below+strings.TrimPrefix(path, pathOf(below))] = info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return found, err
}

func (folder) remove(_ context.Context, address string) error {
	if err := os.Remove(pathOf(address)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// remote is a bucket.
type remote struct {
	*bucket.Files
	address string // with a trailing slash
}

func (r remote) name(address string) string { return strings.TrimPrefix(address, r.address) }

func (r remote) read(ctx context.Context, address string) ([]byte, error) {
	from, _, err := r.Open(ctx, r.name(address))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(from)
	return content, errors.Join(err, from.Close())
}

func (r remote) write(ctx context.Context, address string, content []byte) error {
	return r.Replace(ctx, r.name(address), content, "")
}

func (r remote) put(ctx context.Context, path, address string) error {
	return r.Put(ctx, path, r.name(address))
}

func (r remote) fetch(ctx context.Context, address, to string) (string, error) {
	content, err := r.read(ctx, address)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	return to, os.WriteFile(to, content, 0o600)
}

func (r remote) sizes(ctx context.Context, below string) (map[string]int64, error) {
	found := map[string]int64{}
	for o, err := range r.Below(ctx, r.name(below)) {
		if err != nil {
			return nil, err
		}
		found[r.address+o.Name] = o.Bytes
	}
	return found, nil
}

func (r remote) remove(ctx context.Context, address string) error {
	return r.Remove(ctx, r.name(address))
}

// buckets has the buckets that were opened, by name: the library looks for the storage of an address in a
// registry of the process.
var buckets sync.Map

func init() {
	local := func(context.Context, *url.URL, map[string]string) (icebergio.IO, error) { return files{folder{}}, nil }
	for _, scheme := range []string{"file", ""} { // the library's own does not sync what it writes
		icebergio.Unregister(scheme)
		icebergio.Register(scheme, local)
	}
	icebergio.Register("s3", func(_ context.Context, u *url.URL, _ map[string]string) (icebergio.IO, error) {
		found, known := buckets.Load(u.Host)
		if !known {
			return nil, fmt.Errorf("the catalog has put files into the bucket %s, which is not the warehouse "+
				"of the job file", u.Host)
		}
		return files{found.(remote)}, nil
	})
}

// openWarehouse makes the warehouse known to the library, and returns the URL below which tables are created.
// It is "" if the catalog chooses the location.
func openWarehouse(o Options) (string, error) {
	if path, inBucket := strings.CutPrefix(o.Warehouse, "s3://"); inBucket {
		name, _, _ := strings.Cut(path, "/")
		opened, err := bucket.OpenFiles(bucket.Options{Address: "s3://" + name, Env: o.Env}, "", again)
		if err == nil {
			buckets.Store(name, remote{opened, "s3://" + name + "/"})
		}
		return o.Warehouse, err
	}
	if o.isREST() {
		return "", nil // the catalog's own, which may still be in a bucket
	}
	return (&url.URL{Scheme: "file", Path: o.Warehouse}).String(), os.MkdirAll(o.Warehouse, 0o755)
}

// files makes a storage the file system of the library, which passes no context and reads small files alone.
type files struct{ storage }

var (
	_ icebergio.WriteFileIO = files{}
	_ icebergio.ReadFileIO  = files{}
)

// within returns a context for a request. A bucket that sends nothing fails earlier.
func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Minute)
}

// ReadFile implements [icebergio.ReadFileIO].
func (f files) ReadFile(name string) ([]byte, error) {
	ctx, cancel := within()
	defer cancel()
	return f.read(ctx, name)
}

// Open implements [icebergio.IO].
func (f files) Open(name string) (icebergio.File, error) {
	content, err := f.ReadFile(name)
	return opened{bytes.NewReader(content), name}, err
}

// WriteFile implements [icebergio.WriteFileIO].
func (f files) WriteFile(name string, content []byte) error {
	ctx, cancel := within()
	defer cancel()
	return f.write(ctx, name, content)
}

// Create implements [icebergio.WriteFileIO]. Closing the file writes it.
func (f files) Create(name string) (icebergio.FileWriter, error) {
	return &created{in: f, name: name}, nil
}

// Remove implements [icebergio.IO].
func (f files) Remove(name string) error {
	ctx, cancel := within()
	defer cancel()
	return f.remove(ctx, name)
}

// created is a file that is being written.
type created struct {
	bytes.Buffer
	in   files
	name string
}

// Close implements [io.Closer].
func (c *created) Close() error { return c.in.WriteFile(c.name, c.Bytes()) }

// opened is a file in memory, and its [fs.FileInfo].
type opened struct {
	*bytes.Reader
	name string
}

func (o opened) Stat() (fs.FileInfo, error) { return o, nil }
func (o opened) Close() error               { return nil }
func (o opened) Name() string               { return o.name }
func (o opened) Mode() fs.FileMode          { return 0o444 }
func (o opened) ModTime() time.Time         { return time.Time{} }
func (o opened) IsDir() bool                { return false }
func (o opened) Sys() any                   { return nil }
