package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3 is a bucket of an S3-compatible store.
type s3 struct {
	client *minio.Client
	bucket string
}

func openS3(bucket string, env func(string) (string, bool), transport http.RoundTripper) (*s3, error) {
	host, secure, err := endpoint(env)
	if err != nil {
		return nil, err
	}
	keys, err := credentialsOf(env)
	if err != nil {
		return nil, err
	}
	region := firstSet(env, "AWS_REGION", "AWS_DEFAULT_REGION")
	if region == "" && host != amazon {
		region = "us-east-1" // the default of stores without regions
	}
	client, err := minio.New(host, &minio.Options{Creds: keys, Secure: secure, Region: region,
		Transport: transport, MaxRetries: attempts})
	if err != nil {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL: %w", err)
	}
	return &s3{client, bucket}, nil
}

const amazon = "s3.amazonaws.com"

// endpoint returns the host and port of the store, and whether to use TLS.
func endpoint(env func(string) (string, bool)) (host string, secure bool, err error) {
	text := firstSet(env, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	if text == "" {
		return amazon, true, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.Trim(u.Path, "/") != "" || u.User != nil {
		return "", false, errors.New("AWS_ENDPOINT_URL must be an address such as https://minio.example.com:9000")
	}
	return u.Host, u.Scheme == "https", nil
}

// errNoKeys is the error if no credentials are found.
var errNoKeys = errors.New("no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")

// credentialsOf finds credentials like AWS's tools: in the environment, in their files, or from the
// role of the machine, in this order.
func credentialsOf(env func(string) (string, bool)) (*credentials.Credentials, error) {
	id, secret := firstSet(env, "AWS_ACCESS_KEY_ID"), firstSet(env, "AWS_SECRET_ACCESS_KEY")
	token := firstSet(env, "AWS_SESSION_TOKEN")
	switch {
	case id != "" && secret != "":
		return credentials.NewStaticV4(id, secret, token), nil
	case id != "" || secret != "":
		return nil, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be set")
	}
	client := &http.Client{Timeout: 5 * time.Second}
	keys := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.FileAWSCredentials{Filename: firstSet(env, "AWS_SHARED_CREDENTIALS_FILE"),
			Profile: firstSet(env, "AWS_PROFILE")},
		&credentials.IAM{Client: client},
	})
	found, err := keys.GetWithContext(&credentials.CredContext{Client: client})
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errNoKeys, err)
	}
	if found.SignerType.IsAnonymous() {
		return nil, errNoKeys
	}
	return keys, nil
}

// get sends a GET without a HEAD first, because responses to a HEAD have no error code.
func (s *s3) get(ctx context.Context, key string) (io.ReadCloser, string, error) {
	core := minio.Core{Client: s.client}
	from, info, _, err := core.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	return from, info.ETag, err
}

func (s *s3) put(ctx context.Context, key string, file *os.File, size int64) error {
	if size <= partBytes {
		_, err := s.upload(ctx, key, file, size, minio.PutObjectOptions{}) // the store verifies the checksum
		return err
	}
	if err := s.client.RemoveIncompleteUpload(ctx, s.bucket, key); err != nil {
		return err
	}
	if _, err := s.upload(ctx, key, file, size, minio.PutObjectOptions{}); err != nil {
		return err
	}
	info, err := s.client.StatObject(ctx, s.bucket, key, minio.StatObjectOptions{})
	if err == nil && info.Size != size {
		err = errPartLost
	}
	return err
}

// errPartLost is the error if parts of an upload are lost although the store has confirmed it.
var errPartLost = errors.New(partLost)

// upload returns the ETag, which each store sends.
func (s *s3) upload(ctx context.Context, key string, from io.Reader, size int64,
	o minio.PutObjectOptions) (string, error) {
	o.SendContentMd5 = true
	info, err := s.client.PutObject(ctx, s.bucket, key, from, size, o)
	if err == nil && info.ETag == "" {
		err = errForeign
	}
	return info.ETag, err
}

func (s *s3) replace(ctx context.Context, key string, text []byte, etag string) (string, error) {
	var o minio.PutObjectOptions
	if etag == "" {
		o.SetMatchETagExcept("*")
	} else {
		o.SetMatchETag(etag)
	}
	return s.upload(ctx, key, bytes.NewReader(text), int64(len(text)), o)
}

func (s *s3) remove(ctx context.Context, key string) error {
	if err := s.client.RemoveObject(ctx, s.bucket, key, minio.RemoveObjectOptions{}); err != nil {
		return err
	}
	return s.client.RemoveIncompleteUpload(ctx, s.bucket, key)
}

func (s *s3) list(ctx context.Context, below string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // stops the first listing if the caller stops early
		for found := range s.client.ListIncompleteUploads(ctx, s.bucket, below, true) {
			if !yield(File{found.Key, incompleteSize}, found.Err) {
				return
			}
		}
		o := minio.ListObjectsOptions{Prefix: below, Recursive: true}
		for found := range s.client.ListObjectsIter(ctx, s.bucket, o) {
			if !yield(File{found.Key, found.Size}, found.Err) {
				return
			}
		}
	}
}

func (s *s3) explain(err error) error {
	answer, answered := errors.AsType[minio.ErrorResponse](err)
	request, ofNetwork := errors.AsType[*url.Error](err)
	switch {
	case errors.Is(err, errPartLost):
		return err
	case answered && answer.StatusCode == 0 && answer.Code == minio.InternalError: // the library does not understand it
		return unreachable(errForeign, "AWS_ENDPOINT_URL")
	case answered:
		return newRefused(answer.Code, answer.StatusCode, s3Permissions)
	case ofNetwork:
		err = request.Err // without the URL, which has the names of objects and uploads
	}
	return unreachable(err, "AWS_ENDPOINT_URL")
}
