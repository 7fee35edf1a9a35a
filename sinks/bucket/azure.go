//go:build azure

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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"outlierd/internal/lazyregexp"
)

// azure is a container of Azure Blob Storage.
type azure struct {
	container *container.Client
	expires   time.Time // of the SAS token; zero if there is none
}

// azurePermissions are the permissions that the credentials need, for messages.
const azurePermissions = "to read, write, delete and list blobs: the role Storage Blob Data Contributor, or " +
	"a SAS token with sp=rwdl"

const (
	retryAfter   = 200 * time.Millisecond // first delay of a retry by the library; it doubles
	mostPatience = 5 * time.Second        // maximum delay, also if the store requests a longer one
)

func openAzure(bucket string, env func(string) (string, bool), transport http.RoundTripper) (client, error) {
	o := policy.ClientOptions{
		Transport: sender{transport},
		Retry:     policy.RetryOptions{MaxRetries: attempts - 1, RetryDelay: retryAfter, MaxRetryDelay: mostPatience},
	}
	found, err := openContainer(bucket, env, o)
	if err != nil {
		return nil, err
	}
	address, err := sas.ParseURL(found.URL())
	if err != nil {
		return nil, errAddress // the library's error has the URL with the token
	}
	return &azure{found, address.SAS.ExpiryTime()}, nil
}

// sender adapts a transport to the library. Unlike [http.Client], it puts no URL in errors, which may
// have a token.
type sender struct{ http.RoundTripper }

// Do implements [policy.Transporter].
func (s sender) Do(r *http.Request) (*http.Response, error) { return s.RoundTrip(r) }

// Errors about variables do not quote their values, since any of them may contain a key by mistake.
var (
	errConnection = errors.New("AZURE_STORAGE_CONNECTION_STRING is malformed: copy it from the access keys " +
		"of the storage account")
	errNoAccount = errors.New("AZURE_STORAGE_ACCOUNT must be the name of a storage account, or " +
		"AZURE_STORAGE_CONNECTION_STRING be set")
	errKey     = errors.New("AZURE_STORAGE_KEY is malformed: copy it from the access keys of the storage account")
	errAddress = errors.New("AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING is malformed: " +
		"copy it from the storage account")
	errService = errors.New("AZURE_STORAGE_SERVICE_ENDPOINT must be an address such as " +
		"https://acme.blob.core.windows.net")
)

// openContainer finds the account and credentials like Azure's tools: from a connection string, a key,
// a SAS token, or an identity, in this order.
func openContainer(name string, env func(string) (string, bool), o policy.ClientOptions) (*container.Client, error) {
	options := &container.ClientOptions{ClientOptions: o}
	if text := firstSet(env, "AZURE_STORAGE_CONNECTION_STRING"); text != "" {
		found, err := container.NewClientFromConnectionString(text, name, options)
		if err != nil {
			return nil, errConnection
		}
		return found, nil
	}
	account := firstSet(env, "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
	if !accountName().MatchString(account) {
		return nil, errNoAccount
	}
	service, err := serviceOf(account, env)
	if err != nil {
		return nil, err
	}
	address := service + "/" + name
	if key := firstSet(env, "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"); key != "" {
		keys, err := container.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, errKey
		}
		return container.NewClientWithSharedKeyCredential(address, keys, options)
	}
	if token := firstSet(env, "AZURE_STORAGE_SAS_TOKEN"); token != "" {
		return container.NewClientWithNoCredential(address+"?"+strings.TrimPrefix(token, "?"), options)
	}
	found, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: o})
	if err != nil {
		return nil, errNoIdentity
	}
	return container.NewClient(address, identity{found}, options)
}

// serviceOf returns the URL of the blob service of an account.
func serviceOf(account string, env func(string) (string, bool)) (string, error) {
	text := firstSet(env, "AZURE_STORAGE_SERVICE_ENDPOINT")
	if text == "" {
		return "https://" + account + ".blob.core.windows.net", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return "", errService
	}
	return strings.TrimRight(text, "/"), nil
}

// identity is the identity of the process: a service principal, a workload identity, a managed
// identity, or the user that is signed in with Azure's command line.
type identity struct{ credential azcore.TokenCredential }

// entraCode matches the code of an error of Microsoft Entra.
var entraCode = lazyregexp.New(`AADSTS\d+`)

// GetToken implements [azcore.TokenCredential]. It keeps only the code of the library's errors, which
// contain whole responses.
func (i identity) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := i.credential.GetToken(ctx, o)
	if err == nil || ctx.Err() != nil {
		return token, err
	}
	if code := entraCode().FindString(err.Error()); code != "" {
		return token, unidentified{permanent("Microsoft Entra refused the identity (" + code +
			"): check AZURE_TENANT_ID, AZURE_CLIENT_ID and the other AZURE_* variables of the identity")}
	}
	return token, errNoIdentity
}

// unidentified is the error if no identity was found or accepted.
type unidentified struct{ permanent }

var errNoIdentity = unidentified{"no credentials were found: set AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or " +
	"AZURE_STORAGE_SAS_TOKEN, or give this machine an identity"}

func (a *azure) get(ctx context.Context, key string) (io.ReadCloser, string, error) {
	answer, err := a.container.NewBlobClient(key).DownloadStream(ctx, nil)
	if err == nil && answer.ETag == nil {
		err = errors.Join(errForeign, answer.Body.Close())
	}
	if err != nil {
		return nil, "", err
	}
	return answer.Body, string(deref(answer.ETag)), nil
}

// deref returns the value of a pointer, or the zero value for nil.
func deref[T any](pointer *T) (value T) {
	if pointer != nil {
		value = *pointer
	}
	return value
}

// put uploads each part with its checksum. The store rejects the list of parts if it lacks one. It deletes those of
// interrupted uploads itself: when their object is uploaded again, or after a week.
func (a *azure) put(ctx context.Context, key string, file *os.File, _ int64) error {
	o := &blockblob.UploadStreamOptions{BlockSize: partBytes, TransactionalValidation: blob.TransferValidationTypeComputeCRC64()}
	_, err := a.container.NewBlockBlobClient(key).UploadStream(ctx, file, o)
	return err
}

func (a *azure) replace(ctx context.Context, key string, text []byte, etag string) (string, error) {
	only := &blob.ModifiedAccessConditions{}
	if etag == "" {
		only.IfNoneMatch = new(azcore.ETagAny)
	} else {
		only.IfMatch = new(azcore.ETag(etag))
	}
	answer, err := a.container.NewBlockBlobClient(key).Upload(ctx, streaming.NopCloser(bytes.NewReader(text)), &blockblob.UploadOptions{
		AccessConditions:        &blob.AccessConditions{ModifiedAccessConditions: only},
		TransactionalValidation: blob.TransferValidationTypeComputeCRC64()})
	return string(deref(answer.ETag)), err
}

func (a *azure) remove(ctx context.Context, key string) error {
	snapshots := &blob.DeleteOptions{DeleteSnapshots: new(blob.DeleteSnapshotsOptionTypeInclude)}
	_, err := a.container.NewBlobClient(key).Delete(ctx, snapshots)
	if bloberror.HasCode(err, bloberror.BlobNotFound) {
		return nil
	}
	return err
}

func (a *azure) list(ctx context.Context, below string) iter.Seq2[listed, error] {
	return func(yield func(listed, error) bool) {
		pages := a.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &below})
		for pages.More() {
			page, err := pages.NextPage(ctx)
			if err == nil && page.Segment == nil { // the response was no listing
				err = errForeign
			}
			if err != nil {
				yield(listed{}, err)
				return
			}
			for _, item := range page.Segment.BlobItems {
				if !yield(listed{deref(item.Name), deref(deref(item.Properties).ContentLength)}, nil) {
					return
				}
			}
		}
	}
}

func (a *azure) explain(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if unknown, ok := errors.AsType[unidentified](err); ok {
		return unknown
	}
	answer, answered := errors.AsType[*azcore.ResponseError](err)
	if answered && answer.StatusCode < http.StatusMultipleChoices {
		answered, err = false, errForeign // such as the page of a proxy
	}
	if !answered {
		return fmt.Errorf("%w: check the network and AZURE_STORAGE_ACCOUNT or "+
			"AZURE_STORAGE_CONNECTION_STRING; %s", err, tryAgain)
	}
	remedy := remedyOfAzure(bloberror.Code(answer.ErrorCode))
	denied := answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized
	if denied && !a.expires.IsZero() && time.Now().After(a.expires) {
		remedy = "the SAS token has expired on " + a.expires.Format(time.RFC3339) + ": renew it"
	}
	return newRefused(answer.ErrorCode, answer.StatusCode, remedy, azurePermissions)
}

// remedyOfAzure returns what to do about an error code; "" if [newRefused] knows it from the status.
func remedyOfAzure(code bloberror.Code) string {
	switch code {
	case bloberror.ContainerNotFound, bloberror.ResourceNotFound, bloberror.ContainerBeingDeleted:
		return "create the container, or correct its address"
	case bloberror.AuthenticationFailed, bloberror.InvalidAuthenticationInfo, bloberror.NoAuthenticationInformation:
		return "the store refused the credentials: check AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY " +
			"or AZURE_STORAGE_SAS_TOKEN, and this machine's clock"
	case bloberror.AuthorizationFailure, bloberror.AuthorizationSourceIPMismatch:
		return "allow the credentials " + azurePermissions +
			"; and this machine's address in the account's network rules"
	case "KeyBasedAuthenticationNotPermitted":
		return "the storage account accepts no keys: use an identity instead"
	case bloberror.BlobImmutableDueToPolicy, bloberror.LeaseIDMissing:
		return "a lease or a policy protects the object: remove it, or use another container"
	case bloberror.MD5Mismatch, bloberror.CRC64Mismatch, bloberror.InvalidBlockList, bloberror.InvalidBlobOrBlock:
		return partLost
	}
	return ""
}
