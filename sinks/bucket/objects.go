package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"

	"outlierd/sinks/parquet"
)

// This file has what a [Copy] does with its objects. Errors have their names: the address is in the message of the
// copy.

func openObjects(o Options) (*Files, error) {
	c, prefix, err := openClient(o)
	return &Files{client: c, prefix: prefix}, err
}

// readManifest returns the manifest and its version. They are the zero values if there is none.
func (f *Files) readManifest(ctx context.Context) (m manifest, version string, err error) {
	text, version, err := f.ReadFile(ctx, parquet.ManifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return m, "", nil
	}
	if err == nil {
		m, err = parseManifest(text)
	}
	return m, version, err
}

// listObjects returns the sizes, in bytes, of the objects of copies, by name. Of those that were not uploaded whole it
// returns incompleteSize, so that they are uploaded again or deleted: the store would charge for the parts.
func (f *Files) listObjects(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	for file, err := range f.Below(ctx, "") {
		if err != nil {
			return nil, err
		}
		if objectName().MatchString(file.Name) {
			sizes[file.Name] = file.Bytes
		}
	}
	return sizes, nil
}

// uploadFile uploads a file as the object o. It returns an error if the file does not have the checksum of o.
func (f *Files) uploadFile(ctx context.Context, path string, o parquet.File) error {
	if err := parquet.VerifyFile(path, path, o.SHA256); err != nil {
		return err
	}
	return f.Put(ctx, path, o.Name)
}

// sumObject downloads an object and returns the SHA-256 of its content, in hex.
func (f *Files) sumObject(ctx context.Context, name string) (string, error) {
	from, _, err := f.Open(ctx, name)
	if err != nil {
		return "", err
	}
	defer from.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, from)
	return hex.EncodeToString(sum.Sum(nil)), err
}
