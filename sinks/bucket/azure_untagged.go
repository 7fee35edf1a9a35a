//go:build !azure

package bucket

import (
	"errors"
	"net/http"
)

var errUntagged = errors.New("this program was built without Azure: build it with -tags azure")

func openAzure(string, func(string) (string, bool), http.RoundTripper) (client, error) {
	return nil, errUntagged
}
