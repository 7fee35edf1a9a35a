//go:build iceberg

package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
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

// storage is where the files of tables are: a folder or a bucket. Files never change.
type storage interface {
	Open(ctx context.Context, name string) (file io.ReadCloser, version string, err error)

	// Put stores the local file at path. It is durable afterwards.
	Put(ctx context.Context, path, name string) error

	// Replace stores a small file. It is durable afterwards. In a bucket there must be none if version is "".
	Replace(ctx context.Context, name string, content []byte, version string) error

	// Below iterates over the files whose names begin with that of a folder.
	Below(ctx context.Context, folder string) iter.Seq2[bucket.File, error]

	// Remove deletes a file. It is not an error if there is none.
	Remove(ctx context.Context, name string) error
}

var _, _ storage = folder{}, (*bucket.Files)(nil)

// folder is the local file system. Names are paths.
type folder struct{}

// Open implements storage.
func (folder) Open(_ context.Context, path string) (io.ReadCloser, string, error) {
	file, err := os.Open(path)
	return file, "", err
}

// Put links the file, which is on the disk already, or copies it to another file system.
func (d folder) Put(ctx context.Context, from, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := d.Remove(ctx, path); err != nil {
		return err
	}
	if os.Link(from, path) == nil {
		return durable.Sync(filepath.Dir(path))
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, content, 0o644)
}

// Replace implements storage.
func (folder) Replace(_ context.Context, path string, content []byte, _ string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, content, 0o644)
}

// Below implements storage.
func (folder) Below(_ context.Context, folder string) iter.Seq2[bucket.File, error] {
	var all []bucket.File
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all = append(all, bucket.File{Name: path, Bytes: info.Size()})
		}
		return err
	})
	return func(yield func(bucket.File, error) bool) {
		for _, file := range all {
			if !yield(file, nil) {
				return
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(bucket.File{}, err)
		}
	}
}

// Remove implements storage.
func (folder) Remove(_ context.Context, path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// buckets has the buckets that were opened, by name: the library looks for the storage of an address in a
// registry of the process.
var buckets sync.Map

func init() {
	local := func(context.Context, *url.URL, map[string]string) (icebergio.IO, error) {
		return files{folder{}, "file://"}, nil
	}
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
		return files{found.(*bucket.Files), "s3://" + u.Host + "/"}, nil
	})
}

// openWarehouse makes the warehouse known to the library, and returns the URL below which tables are created.
// It is "" if the catalog chooses the location.
func openWarehouse(o Options) (string, error) {
	if path, inBucket := strings.CutPrefix(o.Warehouse, "s3://"); inBucket {
		name, _, _ := strings.Cut(path, "/")
		opened, err := bucket.OpenFiles(bucket.Options{Address: "s3://" + name, Env: o.Env}, "")
		if err == nil {
			buckets.Store(name, opened)
		}
		return o.Warehouse, err
	}
	if o.isREST() {
		return "", nil // the catalog's own, which may still be in a bucket
	}
	return (&url.URL{Scheme: "file", Path: o.Warehouse}).String(), os.MkdirAll(o.Warehouse, 0o755)
}

// files are the files of a storage by their addresses. It is the file system of the library, which passes no context
// and reads small files alone.
type files struct {
	storage
	prefix string // of the addresses, before the names in the storage
}

var (
	_ icebergio.WriteFileIO = files{}
	_ icebergio.ReadFileIO  = files{}
)

// nameOf returns the name of a file in the storage.
func (f files) nameOf(address string) string {
	if u, err := url.Parse(address); f.isLocal() && err == nil && u.Scheme == "file" {
		return u.Path
	}
	return strings.TrimPrefix(address, f.prefix)
}

func (f files) isLocal() bool { return f.storage == folder{} }

func (f files) read(ctx context.Context, address string) ([]byte, error) {
	from, _, err := f.storage.Open(ctx, f.nameOf(address))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(from)
	return content, errors.Join(err, from.Close())
}

// fetch returns the path of a local file with the content: the file itself, or the new file to.
func (f files) fetch(ctx context.Context, address, to string) (string, error) {
	if path := f.nameOf(address); f.isLocal() {
		_, err := os.Stat(path)
		return path, err
	}
	content, err := f.read(ctx, address)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	return to, err
}

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
	return f.Replace(ctx, f.nameOf(name), content, "")
}

// Create implements [icebergio.WriteFileIO]. Closing the file writes it.
func (f files) Create(name string) (icebergio.FileWriter, error) {
	return &created{in: f, name: name}, nil
}

// Remove implements [icebergio.IO].
func (f files) Remove(name string) error {
	ctx, cancel := within()
	defer cancel()
	return f.storage.Remove(ctx, f.nameOf(name))
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
