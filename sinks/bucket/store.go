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
)

// client is a bucket as its kind of store has it. Keys are those of the bucket. An answer that is
// an error is a [Refused]; it is [fs.ErrNotExist] or [fs.ErrExist] where a file system says so.
type client interface {
	// get begins to read an object. The tag is that of its content.
	get(ctx context.Context, key string) (content io.ReadCloser, etag string, err error)

	// put uploads a file of a size in bytes, in parts above partBytes, and makes sure that all of it
	// has arrived. A checksum that is not "" is noted with the object.
	put(ctx context.Context, key string, file *os.File, size int64, sha256 string) error

	// replace writes a small object if it still has the tag, or if there is none and the tag is "".
	// Otherwise the error is [fs.ErrExist].
	replace(ctx context.Context, key string, text []byte, etag string) (newETag string, err error)

	// remove removes an object, if it is there.
	remove(ctx context.Context, key string) error

	// list finds the objects whose keys begin with below. Unless it is deep, those with a slash after
	// that may be left out.
	list(ctx context.Context, below string, deep bool) iter.Seq2[listed, error]

	// unended finds the keys of uploads that were cut short and whose parts stay, as list does.
	unended(ctx context.Context, below string, deep bool) iter.Seq2[string, error]

	// removeUnended removes the parts that uploads of an object have left.
	removeUnended(ctx context.Context, key string) error
}

// listed is an object of a listing.
type listed struct {
	key   string
	bytes int64
}

const partBytes = 8 << 20 // of an object that is uploaded in parts, at least

// store is a place in a bucket. Names are below its prefix.
type store struct {
	client client
	prefix string
}

// openStore does not use the network. What happens after a fault that passes is told by again.
func openStore(o Options, again string) (*store, error) {
	scheme, path, _ := strings.Cut(o.Address, "://")
	bucket, prefix, _ := strings.Cut(path, "/")
	transport := o.Transport
	if transport == nil {
		transport = network(patience)
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

// first is the value of the first variable that has one.
func first(env func(string) (string, bool), names ...string) string {
	for _, name := range names {
		if value, _ := env(name); value != "" {
			return value
		}
	}
	return ""
}

func (s *store) key(name string) string { return path.Join(s.prefix, name) }

// below is what the keys of all names begin with.
func (s *store) below() string {
	if s.prefix == "" {
		return ""
	}
	return s.prefix + "/"
}

// content is an object's, whose errors are worded as those of requests.
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

// mostOfManifest bounds what is read of an object of that name. A million files have 250 MB.
const mostOfManifest = 256 << 20

// readManifest is the zero value if there is none.
func (s *store) readManifest(ctx context.Context) (m manifest, etag string, err error) {
	from, etag, err := s.client.get(ctx, s.key(manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, "", nil
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(from, mostOfManifest))
		err = errors.Join(err, from.Close())
	}
	if err != nil {
		return m, "", fmt.Errorf("read %s: %w", manifestName, err)
	}
	m, err = parseManifest(text)
	return m, etag, err
}

// sum is the checksum of an object's content.
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

// replaceManifest fails if the manifest is not the one with the given tag any more; "" is none.
func (s *store) replaceManifest(ctx context.Context, text []byte, etag string) (string, error) {
	return s.client.replace(ctx, s.key(manifestName), text, etag)
}

// list finds the sizes of our objects.
func (s *store) list(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	for o, err := range s.client.list(ctx, s.below(), true) {
		if err != nil {
			return nil, fmt.Errorf("list the objects: %w", err)
		}
		if name := strings.TrimPrefix(o.key, s.below()); objectName.MatchString(name) {
			sizes[name] = o.bytes
		}
	}
	return sizes, nil
}

// removeIncomplete removes the parts of uploads that a kill has cut short, which cost as much as objects.
func (s *store) removeIncomplete(ctx context.Context) error {
	for key, err := range s.client.unended(ctx, s.below(), true) {
		if err != nil {
			return fmt.Errorf("list the uploads that were cut short: %w", err)
		}
		if !objectName.MatchString(strings.TrimPrefix(key, s.below())) {
			continue
		}
		if err := s.client.removeUnended(ctx, key); err != nil {
			return fmt.Errorf("remove the upload of %s that was cut short: %w", key, err)
		}
	}
	return nil
}

// upload puts a file there, whose content must be what the manifest says.
func (s *store) upload(ctx context.Context, file string, o object) error {
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
		return fmt.Errorf("%s is damaged: 'outlierd rebuild parquet' builds it anew from the journal", file)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.client.put(ctx, s.key(o.Name), f, o.Bytes, o.SHA256)
}

// contentType is what readers over HTTP are told of an object.
func contentType(key string) string {
	switch path.Ext(key) {
	case ".parquet":
		return "application/vnd.apache.parquet"
	case ".json":
		return "application/json"
	}
	return "application/octet-stream"
}

// partSize is the size of an upload's parts, of which there may be 10,000.
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
