//go:build azure

package bucket

import (
	"bytes"
	"context"
	"errors"
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

const (
	retryAfter    = 200 * time.Millisecond // first delay of a retry by the library; it doubles
	maxRetryAfter = 5 * time.Second        // maximum delay, also if the store requests a longer one
)

// accountName matches names of storage accounts. Other texts could change the URL that contains the name.
var accountName = lazyregexp.New(`^[a-z0-9]{3,24}$`)

func openAzure(bucket string, env func(string) (string, bool), transport http.RoundTripper) (client, error) {
	return openContainer(bucket, env, &container.ClientOptions{ClientOptions: policy.ClientOptions{
		Transport: sender{transport},
		Retry:     policy.RetryOptions{MaxRetries: attempts - 1, RetryDelay: retryAfter, MaxRetryDelay: maxRetryAfter},
	}})
}

// sender adapts a transport to the library. Unlike [http.Client], it puts no URL in errors, which may
// have a token.
type sender struct{ http.RoundTripper }

// Do implements [policy.Transporter].
func (s sender) Do(r *http.Request) (*http.Response, error) { return s.RoundTrip(r) }

// Errors about variables do not quote their values, since any of them may contain a key by mistake.
var (
	errNoAccount = errors.New("AZURE_STORAGE_ACCOUNT must be the name of a storage account, or " +
		"AZURE_STORAGE_CONNECTION_STRING be set")
	errService = errors.New("AZURE_STORAGE_SERVICE_ENDPOINT must be an address such as " +
		"https://acme.blob.core.windows.net")
)

// openContainer finds the account and credentials like Azure's tools: from a connection string, a key,
// a SAS token, or an identity, in this order. A connection string can be made of a key or a token.
func openContainer(name string, env func(string) (string, bool), o *container.ClientOptions) (*azure, error) {
	variable := "AZURE_STORAGE_CONNECTION_STRING"
	text := firstSet(env, variable)
	if text == "" {
		account := firstSet(env, "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
		if !accountName().MatchString(account) {
			return nil, errNoAccount
		}
		service, err := serviceOf(account, env)
		if err != nil {
			return nil, err
		}
		key, token := firstSet(env, "AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"), firstSet(env, "AZURE_STORAGE_SAS_TOKEN")
		text = "BlobEndpoint=" + service
		switch {
		case key != "":
			variable, text = "AZURE_STORAGE_KEY", text+";AccountName="+account+";AccountKey="+key
		case token != "":
			variable, text = "AZURE_STORAGE_SAS_TOKEN", text+";SharedAccessSignature="+strings.TrimPrefix(token, "?")
		default:
			return openWithIdentity(service+"/"+name, o)
		}
	}
	var address sas.URLParts
	found, err := container.NewClientFromConnectionString(text, name, o)
	if err == nil {
		address, err = sas.ParseURL(found.URL())
	}
	if err != nil { // the library's error may have the token
		return nil, errors.New(variable + " is malformed: copy it from the storage account")
	}
	return &azure{found, address.SAS.ExpiryTime()}, nil
}

func openWithIdentity(address string, o *container.ClientOptions) (*azure, error) {
	found, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: o.ClientOptions})
	if err != nil {
		return nil, errNoIdentity
	}
	opened, err := container.NewClient(address, identity{found}, o)
	return &azure{container: opened}, err
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
		return token, unidentified("Microsoft Entra refused the identity (" + code +
			"): check AZURE_TENANT_ID, AZURE_CLIENT_ID and the other AZURE_* variables of the identity")
	}
	return token, errNoIdentity
}

// unidentified is the error if no identity was found or accepted.
type unidentified string

func (u unidentified) Error() string { return string(u) }

const errNoIdentity = unidentified("no credentials were found: set AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or " +
	"AZURE_STORAGE_SAS_TOKEN, or give this machine an identity")

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

func (a *azure) list(ctx context.Context, below string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		pages := a.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &below})
		for pages.More() {
			page, err := pages.NextPage(ctx)
			if err == nil && page.Segment == nil { // the response was no listing
				err = errForeign
			}
			if err != nil {
				yield(File{}, err)
				return
			}
			for _, item := range page.Segment.BlobItems {
				if !yield(File{deref(item.Name), deref(deref(item.Properties).ContentLength)}, nil) {
					return
				}
			}
		}
	}
}

func (a *azure) explain(err error) error {
	const variables = "AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING"
	answer, answered := errors.AsType[*azcore.ResponseError](err)
	unknown, isUnknown := errors.AsType[unidentified](err)
	switch {
	case isUnknown:
		return unknown
	case !answered:
		return unreachable(err, variables)
	case answer.StatusCode < http.StatusMultipleChoices: // such as the page of a proxy
		return unreachable(errForeign, variables)
	}
	r := newRefused(answer.ErrorCode, answer.StatusCode, azurePermissions)
	denied := answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized
	if denied && !a.expires.IsZero() && time.Now().After(a.expires) {
		r.remedy = "the SAS token has expired on " + a.expires.Format(time.RFC3339) + ": renew it"
	}
	return r
}
