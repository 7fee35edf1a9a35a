package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"

	"outlierd/sinks/parquet"
)

// client is a bucket of one kind of store. Keys include the prefix. An error response of the store is a
// [Refused]; it matches [fs.ErrNotExist] or [fs.ErrExist] where these apply.
type client interface {
	// get opens an object for reading. etag identifies its content.
	get(ctx context.Context, key string) (content io.ReadCloser, etag string, err error)

	// put uploads a file of size bytes, in several parts if it is larger than partBytes, and verifies
	// that all of it has arrived. A sha256 other than "" is stored as metadata of the object.
	put(ctx context.Context, key string, file *os.File, size int64, sha256 string) error

	// replace writes a small object if it has the given etag, or if it does not exist and etag is "".
	// Otherwise the error is [fs.ErrExist].
	replace(ctx context.Context, key string, text []byte, etag string) (newETag string, err error)

	// remove deletes an object. It is not an error if the object does not exist.
	remove(ctx context.Context, key string) error

	// list iterates over the objects whose keys begin with below. Unless deep, objects with a slash in
	// the rest of the key may be omitted.
	list(ctx context.Context, below string, deep bool) iter.Seq2[listed, error]

	// incomplete iterates over the keys of incomplete uploads, like list.
	incomplete(ctx context.Context, below string, deep bool) iter.Seq2[string, error]

	// abort deletes the parts of incomplete uploads of an object.
	abort(ctx context.Context, key string) error
}

// listed is an object of a listing.
type listed struct {
	key   string
	bytes int64
}

// partBytes is the minimum size of the parts of an upload, in bytes.
const partBytes = 8 << 20

// store is a prefix in a bucket. Names are relative to the prefix.
type store struct {
	client client
	prefix string
}

// openStore does not use the network. again is the end of messages about transient errors.
func openStore(o Options, again string) (*store, error) {
	scheme, path, _ := strings.Cut(o.Address, "://")
	bucket, prefix, _ := strings.Cut(path, "/")
	transport := o.Transport
	if transport == nil {
		transport = Network(Patience)
	}
	var c client
	var err error
	if scheme == "az" {
		c, err = openAzure(bucket, o.Env, transport, again)
	} else {
		c, err = openS3(bucket, o.Env, transport, again)
	}
	if err != nil {
		return nil, err
	}
	return &store{c, prefix}, nil
}

// first returns the value of the first variable that is not empty.
func first(env func(string) (string, bool), names ...string) string {
	for _, name := range names {
		if value, _ := env(name); value != "" {
			return value
		}
	}
	return ""
}

func (s *store) key(name string) string { return path.Join(s.prefix, name) }

// below returns the beginning of the keys of all names.
func (s *store) below() string {
	if s.prefix == "" {
		return ""
	}
	return s.prefix + "/"
}

// content is the content of an object. Its errors are explained like those of requests.
type content struct {
	io.ReadCloser
	explain func(error) error
}

// Read implements [io.Reader].
func (c content) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.explain(err)
	}
	return n, err
}

// mostOfManifest is the maximum size of a manifest, in bytes. One with a million files has 250 MB.
const mostOfManifest = 256 << 20

// readManifest returns the manifest and its etag. They are the zero values if there is none.
func (s *store) readManifest(ctx context.Context) (m manifest, etag string, err error) {
	from, etag, err := s.client.get(ctx, s.key(parquet.ManifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, "", nil
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(from, mostOfManifest))
		err = errors.Join(err, from.Close())
	}
	if err != nil {
		return m, "", fmt.Errorf("read %s: %w", parquet.ManifestName, err)
	}
	m, err = parseManifest(text)
	return m, etag, err
}

// sum downloads an object and returns the SHA-256 of its content, in hex.
func (s *store) sum(ctx context.Context, name string) (string, error) {
	from, _, err := s.client.get(ctx, s.key(name))
	if err != nil {
		return "", err
	}
	defer from.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, from); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// replaceManifest replaces the manifest with the given etag; "" means that there is none. The error is
// [fs.ErrExist] if it has another etag. It returns the new etag.
func (s *store) replaceManifest(ctx context.Context, text []byte, etag string) (string, error) {
	return s.client.replace(ctx, s.key(parquet.ManifestName), text, etag)
}

// list returns the sizes, in bytes, of the objects of this package, by name.
func (s *store) list(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	for o, err := range s.client.list(ctx, s.below(), true) {
		if err != nil {
			return nil, fmt.Errorf("list the objects: %w", err)
		}
		if name := strings.TrimPrefix(o.key, s.below()); objectName().MatchString(name) {
			sizes[name] = o.bytes
		}
	}
	return sizes, nil
}

// removeIncomplete deletes the parts of incomplete uploads, which the store would charge for. A kill
// leaves them behind.
func (s *store) removeIncomplete(ctx context.Context) error {
	for key, err := range s.client.incomplete(ctx, s.below(), true) {
		if err != nil {
			return fmt.Errorf("list the incomplete uploads: %w", err)
		}
		if !objectName().MatchString(strings.TrimPrefix(key, s.below())) {
			continue
		}
		if err := s.client.abort(ctx, key); err != nil {
			return fmt.Errorf("delete the parts of the incomplete upload of %s: %w", key, err)
		}
	}
	return nil
}

// upload uploads a file as the object o. It returns an error if the file does not have the checksum of
// o.
func (s *store) upload(ctx context.Context, file string, o parquet.File) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if hex.EncodeToString(sum.Sum(nil)) != o.SHA256 {
		return fmt.Errorf("%s is damaged: remove it, and it is written again", file)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.client.put(ctx, s.key(o.Name), f, o.Bytes, o.SHA256)
}

// contentType returns the media type of an object.
func contentType(key string) string {
	switch path.Ext(key) {
	case ".parquet":
		return "application/vnd.apache.parquet"
	case ".json":
		return "application/json"
	}
	return "application/octet-stream"
}

// partSize returns the size of the parts, in bytes, for an upload of bytes. Stores allow at most 10,000
// parts.
func partSize(bytes int64) int64 {
	size := int64(partBytes)
	for size*10_000 < bytes {
		size *= 2
	}
	return size
}

func (s *store) remove(ctx context.Context, name string) error {
	return s.client.remove(ctx, s.key(name))
}
