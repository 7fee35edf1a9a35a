package bucket

import (
	"fmt"
	"io/fs"
	"net/http"

	"github.com/minio/minio-go/v7"

	"outlierd/internal/excerpt"
)

// maxCode is the maximum length of an error code in a message, in characters.
const maxCode = 60

// refused is an error response of the store. It has the store's error code but not its message, which
// may repeat what was sent. It matches [fs.ErrNotExist] or [fs.ErrExist] where these apply.
type refused struct {
	code   string // such as AccessDenied
	status int    // HTTP status
	remedy string
}

// What the credentials must be allowed.
const (
	s3Permissions = "s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject, " +
		"s3:ListBucketMultipartUploads, s3:AbortMultipartUpload"
	azurePermissions = "to read, write, delete and list blobs: the role Storage Blob Data Contributor, or " +
		"a SAS token with sp=rwdl"
)

// newRefused returns the error for a response.
func newRefused(code string, status int, permissions string) *refused {
	r := &refused{excerpt.Runes(code, maxCode), status, remedyOf(code)}
	switch {
	case r.remedy != "":
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

const partLost = "a part of the upload was lost or damaged in transit; " + tryAgain

// remedyOf returns what to do about an error code of S3 or Azure; "" if that depends on the status.
func remedyOf(code string) string {
	switch code {
	case "NoSuchBucket", "ContainerNotFound", "ResourceNotFound", "ContainerBeingDeleted":
		return "create the bucket, or correct its address"
	case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired":
		return "the credentials have expired: renew them"
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken":
		return "the store refused the credentials: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN"
	case "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation":
		return "the store refused the credentials: check AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY " +
			"or AZURE_STORAGE_SAS_TOKEN, and this machine's clock"
	case "AuthorizationFailure", "AuthorizationSourceIPMismatch":
		return "allow the credentials " + azurePermissions +
			"; and this machine's address in the account's network rules"
	case "KeyBasedAuthenticationNotPermitted":
		return "the storage account accepts no keys: use an identity instead"
	case "RequestTimeTooSkewed":
		return "set this machine's clock"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return "set AWS_REGION to the region of the bucket"
	case "BlobImmutableDueToPolicy", "LeaseIdMissing":
		return "a lease or a policy protects the object: remove it, or use another container"
	case minio.NoSuchUpload, "InvalidPart", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch",
		"Md5Mismatch", "Crc64Mismatch", "InvalidBlockList", "InvalidBlobOrBlock":
		return partLost
	}
	return ""
}

// unreachable returns the error if no response of a store has come. Variables name its address.
func unreachable(err error, variables string) error {
	return fmt.Errorf("%w: check the network and %s; %s", err, variables, tryAgain)
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
