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

// Objects are all objects of a bucket by their keys, for a program that knows what they are.
type Objects struct {
	store *s3
	name  string
}

// Object is what a listing tells of an object.
type Object struct {
	Key      string
	Bytes    int64
	Modified time.Time
}

// OpenObjects does not use the network. The address is that of the bucket alone: s3://bucket.
func OpenObjects(o Options) (*Objects, error) {
	transport := o.Transport
	if transport == nil {
		transport = network(patience)
	}
	s, err := openS3(strings.TrimPrefix(o.Address, "s3://"), o.Env, transport, "it is tried again")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Address, err)
	}
	return &Objects{s, o.Address}, nil
}

func (b *Objects) failed(what, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s/%s: %w", what, b.name, key, b.store.explain(err))
}

// Stat tells of one object. Without it the error is [fs.ErrNotExist], as for all that read.
func (b *Objects) Stat(ctx context.Context, key string) (Object, error) {
	info, err := b.store.client.StatObject(ctx, b.store.bucket, key, minio.StatObjectOptions{})
	return Object{key, info.Size, info.LastModified}, b.failed("look for", key, err)
}

// Get begins to read bytes of an object, up to its end if count is negative.
func (b *Objects) Get(ctx context.Context, key string, from, count int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	if count == 0 {
		return nil, errors.New("no bytes are to be read")
	}
	if count > 0 {
		if err := o.SetRange(from, from+count-1); err != nil {
			return nil, err
		}
	} else if from > 0 {
		if err := o.SetRange(from, 0); err != nil {
			return nil, err
		}
	}
	core := minio.Core{Client: b.store.client}
	content, _, _, err := core.GetObject(ctx, b.store.bucket, key, o)
	if err != nil {
		return nil, b.failed("read", key, err)
	}
	return content, nil
}

// Put uploads a file of this machine as an object.
func (b *Objects) Put(ctx context.Context, f *os.File, key string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err = b.store.client.PutObject(ctx, b.store.bucket, key, f, info.Size(),
		minio.PutObjectOptions{SendContentMd5: true, PartSize: uint64(partSize(info.Size()))})
	return b.failed("write", key, err)
}

// Remove removes an object, if it is there.
func (b *Objects) Remove(ctx context.Context, key string) error {
	return b.failed("delete", key, b.store.client.RemoveObject(ctx, b.store.bucket, key, minio.RemoveObjectOptions{}))
}

// List lists the objects whose keys begin so.
func (b *Objects) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		for o := range b.store.client.ListObjectsIter(ctx, b.store.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
			if !yield(Object{o.Key, o.Size, o.LastModified}, b.failed("list", prefix, o.Err)) || o.Err != nil {
				return
			}
		}
	}
}
