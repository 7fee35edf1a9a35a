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

// Files are files directly below the prefix of a bucket. They are the place of a backup, as
// package sync/backup wants it.
type Files struct {
	store   *store
	address string
	temp    string
}

// OpenFiles does not use the network. Files that are put there are prepared in the folder temp.
func OpenFiles(o Options, temp string) (*Files, error) {
	s, err := openStore(o, "run the command again")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Address, err)
	}
	return &Files{s, o.Address, temp}, nil
}

// String is the address.
func (f *Files) String() string { return f.address }

// Temp is a folder of this machine.
func (f *Files) Temp() string { return f.temp }

// Hold does nothing: a bucket has no locks. Who replaces a file second is refused.
func (f *Files) Hold() (release func() error, err error) { return func() error { return nil }, nil }

// Names are those of the files that are there, and of uploads that were not ended.
func (f *Files) Names(ctx context.Context) ([]string, error) {
	s, names := f.store, map[string]bool{}
	for o, err := range s.client.list(ctx, s.below(), false) {
		if err != nil {
			return nil, fmt.Errorf("list the files in %s: %w", f, err)
		}
		names[strings.TrimPrefix(o.key, s.below())] = true
	}
	for key, err := range s.client.unended(ctx, s.below(), false) {
		if err != nil {
			return nil, fmt.Errorf("list the uploads to %s that were cut short: %w", f, err)
		}
		names[strings.TrimPrefix(key, s.below())] = true
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return name == "" || strings.Contains(name, "/") })
	return slices.Sorted(maps.Keys(names)), nil
}

// Open begins to read a file. The version is that of its content, for Replace.
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

// reading is the content of a file, whose errors name it.
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

// Put uploads a file of this machine.
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

// Replace writes a small file in one step, if it still has the given version, or if there is none and
// the version is empty. Otherwise the error is [fs.ErrExist].
func (f *Files) Replace(ctx context.Context, name string, text []byte, version string) error {
	_, err := f.store.client.replace(ctx, f.store.key(name), text, version)
	if errors.Is(err, fs.ErrExist) {
		// The store may have done it, and the answer been lost: then the library has asked again.
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

// Remove removes a file, and what uploads of it that were not ended have left.
func (f *Files) Remove(ctx context.Context, name string) error {
	s := f.store
	err := s.remove(ctx, name)
	if err == nil {
		err = s.client.removeUnended(ctx, s.key(name))
	}
	if err != nil {
		return fmt.Errorf("delete %s/%s, which is out of date: %w", f, name, err)
	}
	return nil
}
