//go:build azure

package bucket

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"outlierd/sinks/bucket/buckettest"
)

func init() {
	stores = append(stores, buckettest.NewAzure)
	refusals = append(refusals, []refusal{
		{buckettest.NewAzure, http.StatusForbidden, "AuthorizationPermissionMismatch", "Storage Blob Data Contributor"},
		{buckettest.NewAzure, http.StatusForbidden, "AuthorizationFailure", "network rules"},
		{buckettest.NewAzure, http.StatusServiceUnavailable, "ServerBusy", "try again later"},
		{buckettest.NewAzure, http.StatusForbidden, "AuthenticationFailed", "this machine's clock"},
		{buckettest.NewAzure, http.StatusNotFound, "ContainerNotFound", "create the bucket"},
		{buckettest.NewAzure, http.StatusConflict, "BlobImmutableDueToPolicy", "a policy"},
	}...)
	badVariables = append(badVariables, []environment{
		{"az", nil, "AZURE_STORAGE_ACCOUNT must be the name"},
		{"az", map[string]string{"AZURE_STORAGE_ACCOUNT": secret}, "AZURE_STORAGE_ACCOUNT must be the name"},
		{"az", map[string]string{"AZURE_STORAGE_ACCOUNT": "acme", "AZURE_STORAGE_KEY": secret}, "AZURE_STORAGE_KEY is malformed"},
		{"az", map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "AccountKey=" + secret}, "CONNECTION_STRING is malformed"},
		{"az", map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "AccountName=acme;AccountKey=" + secret}, "CONNECTION_STRING is malformed"},
		{"az", map[string]string{"AZURE_STORAGE_ACCOUNT": "acme", "AZURE_STORAGE_SERVICE_ENDPOINT": "https://acme?sig=" + secret}, "https://"},
		{"az", map[string]string{"AZURE_STORAGE_ACCOUNT": "acme", "AZURE_STORAGE_SAS_TOKEN": "sig=" + secret + "\n"}, "AZURE_STORAGE_SAS_TOKEN"},
	}...)
}

// TestExpiredTokenIsNamed: stores have several error codes for an expired SAS token, so the expiry is
// read from the token.
func TestExpiredTokenIsNamed(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"AuthenticationFailed", "AuthorizationFailure"} {
		server := buckettest.NewAzure("outliers")
		server.SetFault(func(w http.ResponseWriter, _ *http.Request) bool {
			buckettest.Refuse(w, http.StatusForbidden, code)
			return true
		})
		o := optionsOf(t.TempDir(), server)
		o.Env = func(name string) (string, bool) {
			if name == "AZURE_STORAGE_SAS_TOKEN" {
				return "sp=rwdl&se=2025-11-02T10:00:00Z&sig=" + secret, true
			}
			return env(name)
		}
		s, err := openObjects(o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.listObjects(t.Context())
		if err == nil || !strings.Contains(err.Error(), "has expired on 2025-11-02T10:00:00Z: renew it") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestAzureKnowsIdentities: an identity signs in to Microsoft Entra, and its token is sent with each
// request.
func TestAzureKnowsIdentities(t *testing.T) {
	for name, value := range map[string]string{
		"AZURE_TENANT_ID": "11111111-2222-3333-4444-555555555555", "AZURE_CLIENT_ID": "66666666-2222-3333-4444-555555555555",
		"AZURE_CLIENT_SECRET": secret, "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential",
	} {
		t.Setenv(name, value)
	}
	server := buckettest.NewAzure("outliers")
	for _, c := range []struct{ answer, want string }{
		{`{"token_type": "Bearer", "expires_in": 3600, "access_token": "` + secret + `"}`, ""},
		{`{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret ` + secret + `"}`, "(AADSTS7000215)"},
		{`{}`, "no credentials were found"},
	} {
		o := Options{Address: "az://outliers/a/b", Transport: entra{server, c.answer}}
		o.Env = func(name string) (string, bool) {
			value, ok := map[string]string{"AZURE_STORAGE_ACCOUNT": "acme"}[name]
			return value, ok
		}
		s, err := openObjects(o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.listObjects(t.Context())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret)) {
			t.Errorf("%s: %v", c.answer, err)
		}
	}
}

// entra is a transport that simulates Microsoft Entra, and passes requests with its token to a server.
type entra struct {
	server *buckettest.Server
	answer string
}

func (e entra) RoundTrip(r *http.Request) (*http.Response, error) {
	const host = "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555"
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Host == "acme.blob.core.windows.net" && r.Header.Get("Authorization") == "Bearer "+secret:
		return e.server.RoundTrip(r)
	case strings.HasSuffix(r.URL.Path, "/oauth2/v2.0/token"):
		if strings.Contains(e.answer, `"error"`) {
			w.WriteHeader(http.StatusUnauthorized)
		}
		w.WriteString(e.answer)
	case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
		fmt.Fprintf(w, `{"issuer": "%s/v2.0", "authorization_endpoint": "%[1]s/authorize", "token_endpoint": "%[1]s/oauth2/v2.0/token"}`, host)
	case strings.HasSuffix(r.URL.Path, "/discovery/instance"):
		fmt.Fprintf(w, `{"tenant_discovery_endpoint": "%s/v2.0/.well-known/openid-configuration"}`, host)
	default:
		w.WriteHeader(http.StatusUnauthorized)
	}
	answer := w.Result()
	answer.Request = r
	return answer, nil
}
