package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"

	"outlierd/excerpt"
)

// Permissions are what the credentials must be allowed to do, as AWS calls it.
const Permissions = "s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject, s3:ListBucketMultipartUploads, s3:AbortMultipartUpload"

// mostOfCode is how much is quoted of the word that a store gives for an error.
const mostOfCode = 60

// explain words an error of the library. It quotes no text of the store's but the code: a message
// may repeat what was sent.
func (s *store) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	answer, answered := errors.AsType[minio.ErrorResponse](err)
	if !answered {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the address has the names of objects and uploads
		}
		return fmt.Errorf("%w: check the network and AWS_ENDPOINT_URL; %s", err, s.again)
	}
	return &Refused{Code: excerpt.Runes(answer.Code, mostOfCode), Status: answer.StatusCode, again: s.again}
}

// Refused is an answer of the store that is an error.
type Refused struct {
	Code   string // such as AccessDenied
	Status int    // of HTTP

	again string // as in store
}

// Is lets errors.Is find what a file system would have answered.
func (e *Refused) Is(target error) bool {
	switch e.Code {
	case minio.NoSuchKey:
		return target == fs.ErrNotExist
	case minio.PreconditionFailed, "ConditionalRequestConflict":
		return target == fs.ErrExist
	}
	return false
}

func (e *Refused) Error() string {
	return fmt.Sprintf("the bucket answered %s (HTTP %d): %s", e.Code, e.Status, e.remedy())
}

func (e *Refused) remedy() string {
	switch e.Code {
	case "NoSuchBucket":
		return "create the bucket, or correct its address"
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		return "the credentials have expired: renew them"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken":
		return "the credentials are refused: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
	case "RequestTimeTooSkewed":
		return "set this machine's clock"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return "set AWS_REGION to the region of the bucket"
	case "PreconditionFailed", "ConditionalRequestConflict":
		return "another process has replaced it meanwhile; see that only one data folder writes there"
	case minio.NoSuchUpload:
		return "another process has removed what was uploaded so far; " + e.again
	case "InvalidPart", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch":
		return "a part of the upload was lost or damaged on its way; " + e.again
	}
	switch {
	case e.Status == http.StatusForbidden || e.Status == http.StatusUnauthorized:
		return "allow the credentials " + Permissions
	case e.Status == http.StatusTooManyRequests || e.Status >= 500:
		return "it is busy or has a fault; " + e.again
	}
	return "see docs/buckets.md"
}
