package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"
)

// Files are the files below the prefix of a bucket, by their names below it: the objects of a [Copy], the files of a
// lake, and the storage of a backup, see package sync/backup.
type Files struct {
	client  client
	prefix  string // of the keys; it ends with a slash, unless it is ""
	address string // before the names of files in errors
	temp    string
}

// FileError is the error of a request about a file, or about the files below a name.
type FileError struct {
	Request string // such as "read"
	File    string // its address, or its name in errors of a [Copy]
	Err     error
}

func (e *FileError) Error() string { return e.Request + " " + e.File + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

func (f *Files) failed(request, name string, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, context.Canceled) {
		err = f.client.explain(err)
	}
	return &FileError{request, f.address + name, err}
}

// OpenFiles does not use the network. temp is a local folder in which files are prepared for upload.
func OpenFiles(o Options, temp string) (*Files, error) {
	c, prefix, err := openClient(o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Address, err)
	}
	return &Files{c, prefix, o.Address + "/", temp}, nil
}

// String returns the address of the bucket.
func (f *Files) String() string { return strings.TrimSuffix(f.address, "/") }

// Temp returns the local folder in which files are prepared for upload.
func (f *Files) Temp() string { return f.temp }

// Hold does nothing, because a bucket has no locks.
func (f *Files) Hold() (release func() error, err error) { return func() error { return nil }, nil }

// File is a file in a listing.
type File struct {
	Name  string
	Bytes int64 // incompleteSize for an incomplete upload
}

// Below iterates over the incomplete uploads and then the files whose names begin with prefix.
func (f *Files) Below(ctx context.Context, prefix string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for o, err := range f.client.list(ctx, f.prefix+prefix) {
			o.Name = strings.TrimPrefix(o.Name, f.prefix)
			if !yield(o, f.failed("list the files in", prefix, err)) || err != nil {
				return
			}
		}
	}
}

// Names returns the names of the files directly below the prefix, and of incomplete uploads.
func (f *Files) Names(ctx context.Context) (names, incomplete []string, err error) {
	for file, err := range f.Below(ctx, "") {
		switch {
		case err != nil:
			return nil, nil, err
		case file.Name == "" || strings.Contains(file.Name, "/"):
		case file.Bytes == incompleteSize:
			incomplete = append(incomplete, file.Name)
		default:
			names = append(names, file.Name)
		}
	}
	return names, incomplete, nil
}

// Open opens a file for reading. version identifies its content, for Replace. The error is
// [fs.ErrNotExist] if it does not exist.
func (f *Files) Open(ctx context.Context, name string) (file io.ReadCloser, version string, err error) {
	from, version, err := f.client.get(ctx, f.prefix+name)
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
	return f.failed("upload", name, f.client.put(ctx, f.prefix+name, file, info.Size()))
}

// Replace writes a small file atomically if it has the given version, or if it does not exist and the
// version is "". It returns the new version. Otherwise the error is [fs.ErrExist].
func (f *Files) Replace(ctx context.Context, name string, text []byte, version string) (made string, err error) {
	made, err = f.client.replace(ctx, f.prefix+name, text, version)
	if err = f.failed("write", name, err); errors.Is(err, fs.ErrExist) {
		// The first request may have succeeded although its response was lost, so that the library's
		// retry failed.
		there, version, unread := f.ReadFile(ctx, name)
		if unread != nil || bytes.Equal(there, text) {
			return version, unread
		}
	}
	return made, err
}

// maxRead is the maximum size of a file that is read whole, in bytes. A manifest with a million files has 250 MB.
const maxRead = 256 << 20

// ReadFile returns the content of a small file, and its version.
func (f *Files) ReadFile(ctx context.Context, name string) (text []byte, version string, err error) {
	file, version, err := f.Open(ctx, name)
	if err != nil {
		return nil, "", err
	}
	text, err = io.ReadAll(io.LimitReader(file, maxRead))
	return text, version, errors.Join(err, file.Close())
}

// Remove deletes a file and the parts of its incomplete uploads.
func (f *Files) Remove(ctx context.Context, name string) error {
	return f.failed("delete", name, f.client.remove(ctx, f.prefix+name))
}
