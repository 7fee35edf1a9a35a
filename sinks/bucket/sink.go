package bucket

import (
	"context"
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

var _ sinks.Adopter = (*Sink)(nil)

// Sink is a Parquet sink that copies its published files to a bucket. If the copy fails, Publish
// returns an error, and the next Publish completes the copy.
type Sink struct {
	*parquet.Sink
	copy *Copy
}

// Open returns a sink that copies what sink publishes in the folder dir to a bucket. It does not use
// the network.
func Open(sink *parquet.Sink, dir string, o Options) *Sink {
	return &Sink{Sink: sink, copy: NewCopy(dir, o)}
}

// Publish implements [sinks.Sink]. It publishes the folder first, and then copies it.
func (s *Sink) Publish(ctx context.Context, ops *sinks.Ops) error {
	if err := s.Sink.Publish(ctx, ops); err != nil {
		return err
	}
	return s.copy.Update(ctx, Grace)
}
