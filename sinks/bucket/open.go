package bucket

import (
	"context"
	"errors"
	"net/http"

	"outlierd/sinks"
	"outlierd/sinks/parquet"
)

// Options are the location of a bucket, and how to access it.
type Options struct {
	Address string // s3://bucket, s3://bucket/prefix, az://container or az://container/prefix
	Record  string // path of the file in which the data folder records its commits

	// Env looks up environment variables. S3 uses those of the AWS tools: AWS_ACCESS_KEY_ID and the
	// other credentials, AWS_REGION, AWS_ENDPOINT_URL. Azure uses those of its tools:
	// AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT and the other credentials.
	Env func(string) (string, bool)

	Transport http.RoundTripper // nil means the network
}

var _ sinks.Copy = (*Copy)(nil)

// Copy is a folder of Parquet files that is copied to a bucket. If the bucket fails, Publish returns an
// error, and the next Publish brings the bucket up to date.
type Copy struct {
	*parquet.Copy
	bucket *Bucket
}

// Open returns a copy that publishes the folder dir, and then the bucket. It does not use the network.
func Open(folder *parquet.Copy, dir string, o Options) *Copy { return &Copy{folder, New(dir, o)} }

// Publish implements [sinks.Copy].
func (c *Copy) Publish(ctx context.Context) error {
	if err := c.Copy.Publish(ctx); err != nil {
		return err
	}
	if err := c.bucket.Update(ctx, Grace); err != nil {
		return errors.Join(err, c.Close()) // the cause may be a file, and the next opening compares all with the manifest
	}
	return nil
}
