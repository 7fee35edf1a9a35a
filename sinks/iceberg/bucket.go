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
	"path"
	"strings"
	"sync"
	"time"

	icebergio "github.com/apache/iceberg-go/io"

	"outlierd/sinks/bucket"
)

// buckets has the buckets that were opened. It is global because the library looks up file systems by
// URL scheme in a registry of the process.
var buckets sync.Map // by name: *bucket.Objects

func init() {
	icebergio.Register("s3", func(_ context.Context, u *url.URL, _ map[string]string) (icebergio.IO, error) {
		objects, known := buckets.Load(u.Host)
		if !known {
			return nil, fmt.Errorf("the catalog has put files into the bucket %s, which is not the warehouse "+
				"of the job file", u.Host)
		}
		return remote{objects.(*bucket.Objects), "s3://" + u.Host + "/"}, nil
	})
}

// openBucket registers the bucket of the warehouse and returns the URL of the warehouse.
func openBucket(o Options) (string, error) {
	name, _, _ := strings.Cut(strings.TrimPrefix(o.Warehouse, "s3://"), "/")
	objects, err := bucket.OpenObjects(bucket.Options{Address: "s3://" + name, Env: o.Env})
	if err != nil {
		return "", err
	}
	buckets.Store(name, objects)
	return o.Warehouse, nil
}

// remote is the file system of a bucket.
type remote struct {
	objects *bucket.Objects
	address string // of the bucket, with a trailing slash
}

var (
	_ storage              = remote{}
	_ icebergio.ReadFileIO = remote{}
)

// patience is the timeout of a request, because the library passes no context.
const patience = 2 * time.Minute

func (r remote) key(name string) string { return strings.TrimPrefix(name, r.address) }

// Open implements [icebergio.IO].
func (r remote) Open(name string) (icebergio.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o, err := r.objects.Stat(ctx, r.key(name))
	if err != nil {
		return nil, err
	}
	return &object{in: r, info: info{o}}, nil
}

// ReadFile implements [icebergio.ReadFileIO].
func (r remote) ReadFile(name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	content, err := r.objects.Get(ctx, r.key(name), 0, -1)
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(content)
	return all, errors.Join(err, content.Close())
}

// WriteFile implements [icebergio.WriteFileIO].
func (r remote) WriteFile(name string, content []byte) error {
	f, err := r.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(content))
	return errors.Join(err, f.Close())
}

// Create implements [icebergio.WriteFileIO]. Closing the file uploads it. Until then its content is in
// an unlinked temporary file, which the system deletes if the process is killed.
func (r remote) Create(name string) (icebergio.FileWriter, error) {
	f, err := os.CreateTemp("", "outlierd-lake-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &upload{f, r, name}, nil
}

func (r remote) put(ctx context.Context, from *os.File, name string) error {
	return r.objects.Put(ctx, from, r.key(name))
}

type upload struct {
	*os.File
	in   remote
	name string
}

// Close implements [io.Closer].
func (u *upload) Close() error {
	return errors.Join(u.in.objects.Put(context.Background(), u.File, u.in.key(u.name)), u.File.Close())
}

// Remove implements [icebergio.IO].
func (r remote) Remove(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.objects.Remove(ctx, r.key(name))
}

// info is the [fs.FileInfo] of an object.
type info struct{ bucket.Object }

func (i info) Name() string       { return path.Base(i.Key) }
func (i info) Size() int64        { return i.Bytes }
func (i info) Mode() fs.FileMode  { return 0o444 }
func (i info) ModTime() time.Time { return i.Modified }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }

// object reads an object by range requests.
type object struct {
	in   remote
	info info
	at   int64
}

// Stat implements [fs.File].
func (o *object) Stat() (fs.FileInfo, error) { return o.info, nil }

// ReadAt implements [io.ReaderAt].
func (o *object) ReadAt(into []byte, from int64) (int, error) {
	if from >= o.info.Bytes {
		return 0, io.EOF
	}
	want := min(int64(len(into)), o.info.Bytes-from)
	if want == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	content, err := o.in.objects.Get(ctx, o.info.Key, from, want)
	if err != nil {
		return 0, err
	}
	n, err := io.ReadFull(content, into[:want])
	err = errors.Join(err, content.Close())
	if err == nil && n < len(into) {
		err = io.EOF
	}
	return n, err
}

// Read implements [io.Reader].
func (o *object) Read(into []byte) (int, error) {
	n, err := o.ReadAt(into, o.at)
	o.at += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// Seek implements [io.Seeker].
func (o *object) Seek(to int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		to += o.at
	case io.SeekEnd:
		to += o.info.Bytes
	}
	if to < 0 {
		return 0, fs.ErrInvalid
	}
	o.at = to
	return to, nil
}

// Close implements [io.Closer].
func (o *object) Close() error { return nil }
