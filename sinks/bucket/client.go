package bucket

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
)

// client is a bucket of one kind of store. Keys include the prefix. Errors are those of its library, for explain.
type client interface {
	// get opens an object for reading. etag identifies its content.
	get(ctx context.Context, key string) (content io.ReadCloser, etag string, err error)

	// put uploads a file of size bytes, in several parts if it is larger than partBytes, and verifies
	// that all of it has arrived. Parts of earlier uploads that were interrupted are deleted.
	put(ctx context.Context, key string, file *os.File, size int64) error

	// replace writes a small object if it has the given etag, or if it does not exist and etag is "".
	// Otherwise the explained error is [fs.ErrExist].
	replace(ctx context.Context, key string, text []byte, etag string) (newETag string, err error)

	// remove deletes an object, and the parts of its incomplete uploads. It is not an error if there are none.
	remove(ctx context.Context, key string) error

	// list iterates over the incomplete uploads and then the objects whose keys begin with below. Names are keys.
	list(ctx context.Context, below string) iter.Seq2[File, error]

	// explain converts an error to one with a remedy and without secrets. If it is an error response of the
	// store, the result is a [refused].
	explain(err error) error
}

// incompleteSize is the size of an incomplete upload in a listing.
const incompleteSize = -1

// partBytes is the minimum size of the parts of an upload, in bytes. The S3 library divides only larger files.
const partBytes = 16 << 20

// tryAgain ends messages about transient errors.
const tryAgain = "try again later"

// openClient does not use the network. The prefix is that of the keys.
func openClient(o Options) (c client, prefix string, err error) {
	scheme, path, _ := strings.Cut(o.Address, "://")
	bucket, prefix, _ := strings.Cut(path, "/")
	if prefix != "" {
		prefix += "/"
	}
	transport := o.Transport
	if transport == nil {
		transport = Network(Patience)
	}
	if scheme == "az" {
		c, err = openAzure(bucket, o.Env, transport)
	} else {
		c, err = openS3(bucket, o.Env, transport)
	}
	return c, prefix, err
}

// firstSet returns the value of the first variable that is not empty.
func firstSet(env func(string) (string, bool), names ...string) string {
	for _, name := range names {
		if value, _ := env(name); value != "" {
			return value
		}
	}
	return ""
}

// content is the content of a file. Its errors are explained like those of requests.
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
