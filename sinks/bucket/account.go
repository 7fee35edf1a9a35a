package bucket

import (
	"strings"

	"outlierd/internal/lazyregexp"
)

// accountName matches names of storage accounts. Other texts could change the URL that contains the
// name.
var accountName = lazyregexp.New(`^[a-z0-9]{3,24}$`)

// AzureAccount returns the name of the storage account in the environment, or "".
func AzureAccount(env func(string) (string, bool)) string {
	name := firstSet(env, "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
	for part := range strings.SplitSeq(firstSet(env, "AZURE_STORAGE_CONNECTION_STRING"), ";") {
		if value, ok := strings.CutPrefix(part, "AccountName="); ok {
			name = value
		}
	}
	if !accountName().MatchString(name) {
		return ""
	}
	return name
}
