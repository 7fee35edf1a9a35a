package bucket

import (
	"fmt"
	"io/fs"
	"net/http"

	"github.com/minio/minio-go/v7"

	"outlierd/internal/excerpt"
)

// mostOfCode is the maximum length of an error code in a message, in characters.
const mostOfCode = 60

// refused is an error response of the store. It has the store's error code but not its message, which
// may repeat what was sent. It matches [fs.ErrNotExist] or [fs.ErrExist] where these apply.
type refused struct {
	code   string // such as AccessDenied
	status int    // HTTP status
	remedy string
}

const partLost = "a part of the upload was lost or damaged in transit; " + tryAgain

// newRefused returns the error for a response. remedy is specific to the kind of store; for "" it depends
// on the status.
func newRefused(code string, status int, remedy, permissions string) *refused {
	r := &refused{excerpt.Runes(code, mostOfCode), status, remedy}
	switch {
	case remedy != "":
	case r.Is(fs.ErrExist):
		r.remedy = "another process has replaced it in the meantime; make sure that only one data folder writes there"
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		r.remedy = "allow the credentials " + permissions
	case status == http.StatusTooManyRequests || status >= 500:
		r.remedy = "it is overloaded or has a fault; " + tryAgain
	default:
		r.remedy = "see docs/buckets.md"
	}
	return r
}

// Is reports whether the error means the same as [fs.ErrNotExist] or [fs.ErrExist].
func (e *refused) Is(target error) bool {
	switch e.code {
	case minio.NoSuchKey, "BlobNotFound": // the second is Azure's
		return target == fs.ErrNotExist
	case minio.PreconditionFailed, "ConditionalRequestConflict", "ConditionNotMet", "BlobAlreadyExists":
		return target == fs.ErrExist
	}
	return false
}

func (e *refused) Error() string {
	return fmt.Sprintf("the bucket answered %s (HTTP %d): %s", e.code, e.status, e.remedy)
}
