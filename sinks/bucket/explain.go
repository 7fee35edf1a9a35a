package bucket

import (
	"fmt"
	"io/fs"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/minio/minio-go/v7"

	"outlierd/excerpt"
)

// mostOfCode is how much is quoted of the word that a store gives for an error.
const mostOfCode = 60

// Refused is an answer of the store that is an error. No text of the store's is quoted but the
// code: a message may repeat what was sent.
type Refused struct {
	Code   string // such as AccessDenied
	Status int    // of HTTP

	remedy string
}

const partLost = "a part of the upload was lost or damaged on its way; "

// refused words an answer. The remedy is that of the kind of store, or "" for one that all have.
func refused(code string, status int, remedy, permissions, again string) *Refused {
	r := &Refused{excerpt.Runes(code, mostOfCode), status, remedy}
	switch {
	case remedy != "":
	case r.Is(fs.ErrExist):
		r.remedy = "another process has replaced it meanwhile; see that only one data folder writes there"
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		r.remedy = "allow the credentials " + permissions
	case status == http.StatusTooManyRequests || status >= 500:
		r.remedy = "it is busy or has a fault; " + again
	default:
		r.remedy = "see docs/buckets.md"
	}
	return r
}

// Is lets errors.Is find what a file system would have answered.
func (e *Refused) Is(target error) bool {
	switch e.Code {
	case minio.NoSuchKey, string(bloberror.BlobNotFound):
		return target == fs.ErrNotExist
	case minio.PreconditionFailed, "ConditionalRequestConflict", string(bloberror.ConditionNotMet), string(bloberror.BlobAlreadyExists):
		return target == fs.ErrExist
	}
	return false
}

func (e *Refused) Error() string {
	return fmt.Sprintf("the bucket answered %s (HTTP %d): %s", e.Code, e.Status, e.remedy)
}
