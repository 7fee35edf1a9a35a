package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// store is a place in a bucket. Names are below its prefix.
type store struct {
	client         *minio.Client
	bucket, prefix string
	again          string // what happens after a fault that passes, for people
}

const (
	partBytes = 8 << 20          // of an object that is uploaded in parts, at least
	attempts  = 3                // of each request, by the library
	patience  = 20 * time.Second // without a byte, after which the store is given up
)

// openStore does not use the network.
func openStore(o Options) (*store, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(o.Address, "s3://"), "/")
	host, secure, err := endpoint(o.Env)
	if err != nil {
		return nil, err
	}
	keys, err := credentialsOf(o.Env)
	if err != nil {
		return nil, err
	}
	transport := o.Transport
	if transport == nil {
		transport = network(patience)
	}
	region := first(o.Env, "AWS_REGION", "AWS_DEFAULT_REGION")
	if region == "" && host != amazon {
		region = "us-east-1" // what stores assume that have no regions
	}
	client, err := minio.New(host, &minio.Options{Creds: keys, Secure: secure, Region: region, Transport: transport, MaxRetries: attempts})
	if err != nil {
		return nil, fmt.Errorf("AWS_ENDPOINT_URL: %w", err)
	}
	return &store{client, bucket, prefix, "it is tried again"}, nil
}

const amazon = "s3.amazonaws.com"

// endpoint is the host of the store.
func endpoint(env func(string) (string, bool)) (host string, secure bool, err error) {
	text := first(env, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	if text == "" {
		return amazon, true, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return "", false, errors.New("AWS_ENDPOINT_URL must be an address such as https://minio.example.com:9000")
	}
	return u.Host, u.Scheme == "https", nil
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

// errNoKeys is the error where no credentials are found.
var errNoKeys = errors.New("no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")

// credentialsOf finds credentials as AWS's tools do: in the environment, in their files, and from
// the machine's role.
func credentialsOf(env func(string) (string, bool)) (*credentials.Credentials, error) {
	id, secret, token := first(env, "AWS_ACCESS_KEY_ID"), first(env, "AWS_SECRET_ACCESS_KEY"), first(env, "AWS_SESSION_TOKEN")
	switch {
	case id != "" && secret != "":
		return credentials.NewStaticV4(id, secret, token), nil
	case id != "" || secret != "":
		return nil, errors.New("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be set")
	}
	client := &http.Client{Timeout: 5 * time.Second}
	keys := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.FileAWSCredentials{Filename: first(env, "AWS_SHARED_CREDENTIALS_FILE"), Profile: first(env, "AWS_PROFILE")},
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

// network is a transport that fails once nothing has moved for a while, however long a whole
// request takes.
func network(patience time.Duration) http.RoundTripper {
	dialer := &net.Dialer{Timeout: patience}
	return &mortal{transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return watched{conn, patience}, nil
		},
		MaxIdleConnsPerHost: atOnce, IdleConnTimeout: patience / 2, TLSHandshakeTimeout: patience,
	}}
}

// mortal is a transport that sends nothing more after a time-out. The library would repeat the
// request, and who waits for the copy would wait again; the sink is tried again later.
type mortal struct {
	transport http.RoundTripper
	ended     atomic.Bool
}

var errSilent = errors.New("the store does not answer")

// RoundTrip implements [http.RoundTripper].
func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.ended.Load() {
		return nil, errSilent
	}
	answer, err := m.transport.RoundTrip(r)
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() && r.Context().Err() == nil {
		m.ended.Store(true)
	}
	return answer, err
}

// watched is a connection that has to move.
type watched struct {
	net.Conn
	patience time.Duration
}

// Read implements [net.Conn].
func (w watched) Read(into []byte) (int, error) { return w.move(w.Conn.Read, into) }

// Write implements [net.Conn]. It also gives a read more time that waits for the answer.
func (w watched) Write(some []byte) (int, error) { return w.move(w.Conn.Write, some) }

func (w watched) move(do func([]byte) (int, error), some []byte) (int, error) {
	if err := w.Conn.SetDeadline(time.Now().Add(w.patience)); err != nil {
		return 0, err
	}
	return do(some)
}

func (s *store) key(name string) string { return path.Join(s.prefix, name) }

// below is what the keys of all names begin with.
func (s *store) below() string {
	if s.prefix == "" {
		return ""
	}
	return s.prefix + "/"
}

// mostOfManifest bounds what is read of an object of that name. A million files have 250 MB.
const mostOfManifest = 256 << 20

// readManifest is the zero value if there is none.
func (s *store) readManifest(ctx context.Context) (m manifest, etag string, err error) {
	from, info, err := s.get(ctx, manifestName)
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return m, "", nil
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(from, mostOfManifest))
		err = errors.Join(err, from.Close())
	}
	if err != nil {
		return m, "", fmt.Errorf("read %s: %w", manifestName, s.explain(err))
	}
	m, err = parseManifest(text)
	return m, info.ETag, err
}

// get begins to read an object, by a request whose errors tell their code, which those of a HEAD do not.
func (s *store) get(ctx context.Context, name string) (io.ReadCloser, minio.ObjectInfo, error) {
	core := minio.Core{Client: s.client}
	from, info, _, err := core.GetObject(ctx, s.bucket, s.key(name), minio.GetObjectOptions{})
	return from, info, err
}

// sum is the checksum of an object's content.
func (s *store) sum(ctx context.Context, name string) (string, error) {
	from, _, err := s.get(ctx, name)
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
	return s.replace(ctx, manifestName, text, etag)
}

// replace writes a small object, if it still has the given tag, or if there is none and the tag is empty.
func (s *store) replace(ctx context.Context, name string, text []byte, etag string) (string, error) {
	o := minio.PutObjectOptions{ContentType: "application/json", SendContentMd5: true}
	if etag == "" {
		o.SetMatchETagExcept("*")
	} else {
		o.SetMatchETag(etag)
	}
	info, err := s.client.PutObject(ctx, s.bucket, s.key(name), bytes.NewReader(text), int64(len(text)), o)
	return info.ETag, s.explain(err)
}

// list finds the sizes of our objects.
func (s *store) list(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.below(), Recursive: true}) {
		if o.Err != nil {
			return nil, fmt.Errorf("list the objects: %w", s.explain(o.Err))
		}
		if name := strings.TrimPrefix(o.Key, s.below()); objectName.MatchString(name) {
			sizes[name] = o.Size
		}
	}
	return sizes, nil
}

// removeIncomplete removes the parts of uploads that a kill has cut short, which cost as much as objects.
func (s *store) removeIncomplete(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the listing, if it is not read to its end
	for u := range s.client.ListIncompleteUploads(ctx, s.bucket, s.below(), true) {
		if u.Err != nil {
			return fmt.Errorf("list the uploads that were cut short: %w", s.explain(u.Err))
		}
		if !objectName.MatchString(strings.TrimPrefix(u.Key, s.below())) {
			continue
		}
		core := minio.Core{Client: s.client}
		if err := core.AbortMultipartUpload(ctx, s.bucket, u.Key, u.UploadID); err != nil {
			return fmt.Errorf("remove the upload of %s that was cut short: %w", u.Key, s.explain(err))
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
	return s.put(ctx, f, o.Name, o.Bytes, minio.PutObjectOptions{
		ContentType: "application/vnd.apache.parquet", UserMetadata: map[string]string{"sha256": o.SHA256},
	})
}

// put uploads a file, and looks whether all of it has arrived.
func (s *store) put(ctx context.Context, f *os.File, name string, bytes int64, o minio.PutObjectOptions) error {
	o.SendContentMd5, o.PartSize = true, partSize(bytes)
	_, err := s.client.PutObject(ctx, s.bucket, s.key(name), f, bytes, o)
	if err != nil || bytes <= partBytes {
		return s.explain(err) // of one part, which the store has checked
	}
	info, err := s.client.StatObject(ctx, s.bucket, s.key(name), minio.StatObjectOptions{})
	if err == nil && info.Size != bytes {
		return fmt.Errorf("the bucket has %d bytes of the %d that were uploaded; %s", info.Size, bytes, s.again)
	}
	return s.explain(err)
}

// partSize is the size of an upload's parts, of which S3 allows 10,000.
func partSize(bytes int64) uint64 {
	size := int64(partBytes)
	for size*10_000 < bytes {
		size *= 2
	}
	return uint64(size)
}

func (s *store) remove(ctx context.Context, name string) error {
	return s.explain(s.client.RemoveObject(ctx, s.bucket, s.key(name), minio.RemoveObjectOptions{}))
}
