package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
)

// Objects gives access to all objects of an S3 bucket by their keys.
type Objects struct {
	store *s3
	name  string
}

// Object is an object in a listing.
type Object struct {
	Key      string
	Bytes    int64
	Modified time.Time
}

// OpenObjects does not use the network. The address must be a bucket without a prefix: s3://bucket.
func OpenObjects(o Options) (*Objects, error) {
	transport := o.Transport
	if transport == nil {
		transport = Network(Patience)
	}
	s, err := openS3(strings.TrimPrefix(o.Address, "s3://"), o.Env, transport, "it is tried again")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Address, err)
	}
	return &Objects{s, o.Address}, nil
}

// ObjectError is the error of a request about an object, or about the objects with a prefix.
type ObjectError struct {
	Request string // such as "read"
	Object  string // its address
	Err     error
}

func (e *ObjectError) Error() string { return e.Request + " " + e.Object + ": " + e.Err.Error() }

func (e *ObjectError) Unwrap() error { return e.Err }

func (b *Objects) failed(request, key string, err error) error {
	if err == nil {
		return nil
	}
	return &ObjectError{request, b.name + "/" + key, b.store.explain(err)}
}

// Stat returns the size and time of an object. The error is [fs.ErrNotExist] if it does not exist.
func (b *Objects) Stat(ctx context.Context, key string) (Object, error) {
	info, err := b.store.client.StatObject(ctx, b.store.bucket, key, minio.StatObjectOptions{})
	if answer, ok := errors.AsType[minio.ErrorResponse](err); ok && answer.Code != minio.NoSuchKey {
		// The response to this HEAD request has no body and so no error code. That to a GET request has.
		var from io.ReadCloser
		core := minio.Core{Client: b.store.client}
		if from, info, _, err = core.GetObject(ctx, b.store.bucket, key, minio.GetObjectOptions{}); err == nil {
			err = from.Close()
		}
	}
	return Object{key, info.Size, info.LastModified}, b.failed("look for", key, err)
}

// Get reads count bytes of an object from offset first, or up to its end if count is negative. The error
// is [fs.ErrNotExist] if it does not exist.
func (b *Objects) Get(ctx context.Context, key string, first, count int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	if count == 0 {
		return nil, errors.New("no bytes are to be read")
	}
	if count > 0 {
		if err := o.SetRange(first, first+count-1); err != nil {
			return nil, err
		}
	} else if first > 0 {
		if err := o.SetRange(first, 0); err != nil {
			return nil, err
		}
	}
	core := minio.Core{Client: b.store.client}
	from, _, _, err := core.GetObject(ctx, b.store.bucket, key, o)
	if err != nil {
		return nil, b.failed("read", key, err)
	}
	return content{from, func(err error) error { return b.failed("read", key, err) }}, nil
}

// Put uploads a whole local file as an object.
func (b *Objects) Put(ctx context.Context, f *os.File, key string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = b.store.upload(ctx, key, f, info.Size(),
		minio.PutObjectOptions{SendContentMd5: true, PartSize: uint64(partSize(info.Size()))})
	return b.failed("write", key, err)
}

// Remove deletes an object. It is not an error if the object does not exist.
func (b *Objects) Remove(ctx context.Context, key string) error {
	return b.failed("delete", key, b.store.client.RemoveObject(ctx, b.store.bucket, key, minio.RemoveObjectOptions{}))
}

// List iterates over the objects whose keys begin with prefix. It ends after an error.
func (b *Objects) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o := range b.store.client.ListObjectsIter(ctx, b.store.bucket,
			minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if !yield(Object{o.Key, o.Size, o.LastModified}, b.failed("list", prefix, o.Err)) || o.Err != nil {
				return
			}
		}
	}
}
