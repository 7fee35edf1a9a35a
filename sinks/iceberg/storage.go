//go:build iceberg

package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	icebergio "github.com/apache/iceberg-go/io"

	"outlierd/internal/durable"
	"outlierd/sinks/bucket"
	"outlierd/sinks/duckdb/database"
)

// buckets has the buckets that were opened, by name: the library looks for the storage of an address in a
// registry of the process.
var buckets sync.Map

func init() {
	local := func(ctx context.Context, _ *url.URL, _ map[string]string) (icebergio.IO, error) {
		return files{carried: carriedOf(ctx)}, nil
	}
	for _, scheme := range []string{"file", ""} { // the library's own does not sync what it writes
		icebergio.Unregister(scheme)
		icebergio.Register(scheme, local)
	}
	icebergio.Register("s3", func(ctx context.Context, u *url.URL, _ map[string]string) (icebergio.IO, error) {
		found, known := buckets.Load(u.Host)
		if !known {
			return nil, fmt.Errorf("the catalog has put files into the bucket %s, which is not the warehouse "+
				"of the job file", u.Host)
		}
		return files{found.(*bucket.Files), "s3://" + u.Host + "/", carriedOf(ctx)}, nil
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

// files are the files of tables by their addresses, in a bucket or a folder. Files never change. It is the file system
// of the library, which passes no context and reads small files alone.
type files struct {
	bucket *bucket.Files // nil for the local file system
	prefix string        // of the addresses of a bucket, before the names in it

	carried carried // the list of the files that are written; "" for none
}

// carried is the path of a local list of the files that were written to the location of a table, and may not be in the
// table. A file gets there before it is written, so that neither a kill nor a catalog that refuses leaves files behind
// for ever. The list is removed when the table has been published.
type carried string

type carriedKey struct{}

// note returns a context with which the library's files are carried.
func (c carried) note(ctx context.Context) context.Context {
	return context.WithValue(ctx, carriedKey{}, c)
}

func carriedOf(ctx context.Context) carried {
	c, _ := ctx.Value(carriedKey{}).(carried)
	return c
}

func (c carried) read() (addresses []string, err error) {
	text, err := os.ReadFile(string(c))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }), ignoreMissing(err)
}

// add adds files to the list durably.
func (c carried) add(addresses ...string) error {
	if c == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(string(c)), 0o755); err != nil {
		return err
	}
	list, err := os.OpenFile(string(c), os.O_WRONLY|os.O_CREATE|os.O_APPEND|os.O_SYNC, 0o644)
	if err != nil {
		return err
	}
	_, err = list.WriteString(strings.Join(addresses, "\n") + "\n")
	return errors.Join(err, list.Close())
}

var (
	_ icebergio.WriteFileIO = files{}
	_ icebergio.ReadFileIO  = files{}
)

// nameOf returns the name of a file in the bucket, or its path.
func (f files) nameOf(address string) string {
	if u, err := url.Parse(address); f.bucket == nil && err == nil && u.Scheme == "file" {
		return u.Path
	}
	return strings.TrimPrefix(address, f.prefix)
}

// put stores the local file at path. It is durable afterwards. In a folder it is linked, or copied to another file
// system.
func (f files) put(ctx context.Context, path, address string) error {
	to := f.nameOf(address)
	if err := f.carried.add(address); err != nil {
		return err
	}
	if f.bucket != nil {
		return f.bucket.Put(ctx, path, to)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), database.Remove(to)); err != nil {
		return err
	}
	if os.Link(path, to) == nil {
		return durable.Sync(filepath.Dir(to))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return writeLocal(to, content)
}

// sizes returns the sizes, in bytes, of the files below an address, by name.
func (f files) sizes(ctx context.Context, address string) (map[string]int64, error) {
	found := map[string]int64{}
	if f.bucket != nil {
		for file, err := range f.bucket.Below(ctx, f.nameOf(address)) {
			if err != nil {
				return nil, err
			}
			found[file.Name] = file.Bytes
		}
		return found, nil
	}
	err := filepath.WalkDir(f.nameOf(address), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			found[path] = info.Size()
		}
		return err
	})
	return found, ignoreMissing(err)
}

// ReadFile implements [icebergio.ReadFileIO].
func (f files) ReadFile(name string) ([]byte, error) {
	if f.bucket == nil {
		return os.ReadFile(f.nameOf(name))
	}
	content, _, err := f.bucket.ReadFile(context.Background(), f.nameOf(name))
	return content, err
}

// Open implements [icebergio.IO].
func (f files) Open(name string) (icebergio.File, error) {
	content, err := f.ReadFile(name)
	if err != nil {
		return nil, err
	}
	memory := icebergio.NewMemFS()
	if err := memory.WriteFile(name, content); err != nil {
		return nil, err
	}
	return memory.Open(name)
}

// WriteFile implements [icebergio.WriteFileIO]. The file is durable afterwards.
func (f files) WriteFile(name string, content []byte) error {
	if err := f.carried.add(name); err != nil {
		return err
	}
	if f.bucket == nil {
		return writeLocal(f.nameOf(name), content)
	}
	_, err := f.bucket.Replace(context.Background(), f.nameOf(name), content, "")
	return err
}

// writeLocal writes a local file, and the folders above it.
func writeLocal(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.WriteFile(path, content, 0o644)
}

// Create implements [icebergio.WriteFileIO]. Closing the file writes it.
func (f files) Create(name string) (icebergio.FileWriter, error) {
	return &created{in: f, name: name}, nil
}

// Remove implements [icebergio.IO]. It is not an error if there is no such file.
func (f files) Remove(name string) error {
	if f.bucket == nil {
		return database.Remove(f.nameOf(name))
	}
	return f.bucket.Remove(context.Background(), f.nameOf(name))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// created is a file that is being written.
type created struct {
	bytes.Buffer
	in   files
	name string
}

// Close implements [io.Closer].
func (c *created) Close() error { return c.in.WriteFile(c.name, c.Bytes()) }
