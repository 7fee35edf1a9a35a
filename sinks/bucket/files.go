package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
)

// Files are the files below the prefix of a bucket: those of a lake, and the storage of a backup, see
// package sync/backup.
type Files struct {
	store   *store
	address string
	temp    string
}

// FileError is the error of a request about a file, or about the files below a name.
type FileError struct {
	Request string // such as "read"
	File    string // its address
	Err     error
}

func (e *FileError) Error() string { return e.Request + " " + e.File + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

func (f *Files) failed(request, name string, err error) error {
	if err == nil {
		return nil
	}
	return &FileError{request, f.address + "/" + name, err}
}

// OpenFiles does not use the network. temp is a local folder in which files are prepared for upload, and again
// says in messages about transient errors when a request is repeated.
func OpenFiles(o Options, temp, again string) (*Files, error) {
	s, err := openStore(o, again)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Address, err)
	}
	return &Files{s, o.Address, temp}, nil
}

// String returns the address of the bucket.
func (f *Files) String() string { return f.address }

// Temp returns the local folder in which files are prepared for upload.
func (f *Files) Temp() string { return f.temp }

// Hold does nothing, because a bucket has no locks. Replace detects concurrent writers instead.
func (f *Files) Hold() (release func() error, err error) { return func() error { return nil }, nil }

// File is a file in a listing.
type File struct {
	Name  string
	Bytes int64
}

// Below iterates over the files whose names begin with prefix.
func (f *Files) Below(ctx context.Context, prefix string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for o, err := range f.store.client.list(ctx, f.store.below()+prefix, true) {
			if !yield(File{strings.TrimPrefix(o.key, f.store.below()), o.bytes}, f.failed("list", prefix, err)) || err != nil {
				return
			}
		}
	}
}

// Names returns the names of the files directly below the prefix, and of incomplete uploads, sorted.
func (f *Files) Names(ctx context.Context) ([]string, error) {
	s, names := f.store, map[string]bool{}
	for o, err := range s.client.list(ctx, s.below(), false) {
		if err != nil {
			return nil, f.failed("list the files in", "", err)
		}
		names[strings.TrimPrefix(o.key, s.below())] = true
	}
	for key, err := range s.client.incomplete(ctx, s.below(), false) {
		if err != nil {
			return nil, f.failed("list the incomplete uploads to", "", err)
		}
		names[strings.TrimPrefix(key, s.below())] = true
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return name == "" || strings.Contains(name, "/") })
	return slices.Sorted(maps.Keys(names)), nil
}

// Open opens a file for reading. version identifies its content, for Replace. The error is
// [fs.ErrNotExist] if it does not exist.
func (f *Files) Open(ctx context.Context, name string) (file io.ReadCloser, version string, err error) {
	from, version, err := f.store.client.get(ctx, f.store.key(name))
	if err != nil {
		return nil, "", f.failed("read", name, err)
	}
	return content{from, func(err error) error { return f.failed("read", name, err) }}, version, nil
}

// Put uploads the local file at path.
func (f *Files) Put(ctx context.Context, path, name string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return f.failed("upload", name, f.store.client.put(ctx, f.store.key(name), file, info.Size(), ""))
}

// Replace writes a small file atomically if it has the given version, or if it does not exist and the
// version is "". Otherwise the error is [fs.ErrExist].
func (f *Files) Replace(ctx context.Context, name string, text []byte, version string) error {
	_, err := f.store.client.replace(ctx, f.store.key(name), text, version)
	if errors.Is(err, fs.ErrExist) {
		// The first request may have succeeded although its response was lost, so that the library's
		// retry failed.
		has, unread := f.has(ctx, name, text)
		if has || unread != nil {
			return unread
		}
	}
	return f.failed("write", name, err)
}

// has reports whether a file has this content.
func (f *Files) has(ctx context.Context, name string, text []byte) (bool, error) {
	file, _, err := f.Open(ctx, name)
	if err != nil {
		return false, err
	}
	there, err := io.ReadAll(io.LimitReader(file, int64(len(text))+1))
	return bytes.Equal(there, text), errors.Join(err, file.Close())
}

// Remove deletes a file and the parts of its incomplete uploads.
func (f *Files) Remove(ctx context.Context, name string) error {
	s := f.store
	err := s.remove(ctx, name)
	if err == nil {
		err = s.client.abort(ctx, s.key(name))
	}
	return f.failed("delete", name, err)
}
