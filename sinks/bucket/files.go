package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// Files are files directly below the prefix of a bucket. They implement the storage of a backup, see
// package sync/backup.
type Files struct {
	store   *store
	address string
	temp    string
}

// OpenFiles does not use the network. temp is a local folder in which files are prepared for upload.
func OpenFiles(o Options, temp string) (*Files, error) {
	s, err := openStore(o, "run the command again")
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

// Names returns the names of the files, and of incomplete uploads, sorted.
func (f *Files) Names(ctx context.Context) ([]string, error) {
	s, names := f.store, map[string]bool{}
	for o, err := range s.client.list(ctx, s.below(), false) {
		if err != nil {
			return nil, fmt.Errorf("list the files in %s: %w", f, err)
		}
		names[strings.TrimPrefix(o.key, s.below())] = true
	}
	for key, err := range s.client.incomplete(ctx, s.below(), false) {
		if err != nil {
			return nil, fmt.Errorf("list the incomplete uploads to %s: %w", f, err)
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
		return nil, "", f.unread(name, err)
	}
	return &reading{from, f, name}, version, nil
}

func (f *Files) unread(name string, err error) error {
	return fmt.Errorf("read %s/%s: %w", f, name, err)
}

// reading is the content of a file. Its errors name the file.
type reading struct {
	io.ReadCloser
	files *Files
	name  string
}

// Read implements [io.Reader].
func (r *reading) Read(into []byte) (int, error) {
	n, err := r.ReadCloser.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.files.unread(r.name, err)
	}
	return n, err
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
	if err := f.store.client.put(ctx, f.store.key(name), file, info.Size(), ""); err != nil {
		return fmt.Errorf("upload %s/%s: %w", f, name, err)
	}
	return nil
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
	if err != nil {
		return fmt.Errorf("replace %s/%s: %w", f, name, err)
	}
	return nil
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
	if err != nil {
		return fmt.Errorf("delete %s/%s, which is out of date: %w", f, name, err)
	}
	return nil
}
