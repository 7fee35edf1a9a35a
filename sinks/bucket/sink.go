package bucket

import (
	"context"
	"net/http"

	"outlierd/sinks"
	"outlierd/sinks/parquet"
)

// Options say where a bucket is and how to reach it.
type Options struct {
	Address string // s3://bucket, s3://bucket/prefix or, of Azure, az://container/prefix
	Record  string // the file in which the data folder notes what it has written there

	// Env is the environment, with the variables of AWS's own tools: AWS_ACCESS_KEY_ID and the
	// others of credentials, AWS_REGION, AWS_ENDPOINT_URL; or those of Azure's:
	// AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT and the others of credentials.
	Env func(string) (string, bool)

	Transport http.RoundTripper // nil is the network
}

var _ sinks.Adopter = (*Sink)(nil)

// Sink is a Parquet sink whose published files are copied to a bucket. What is published is in
// the bucket: without it, publishing fails, and is made up for later.
type Sink struct {
	*parquet.Sink
	copy *Copy
}

// Open puts a bucket behind the sink of a folder. It does not use the network.
func Open(sink *parquet.Sink, dir string, o Options) *Sink {
	return &Sink{Sink: sink, copy: NewCopy(dir, o)}
}

// Publish implements [sinks.Sink].
func (s *Sink) Publish(ctx context.Context, ops *sinks.Ops) error {
	if err := s.Sink.Publish(ctx, ops); err != nil {
		return err
	}
	return s.copy.Update(ctx, Grace)
}
