package job

import (
	"regexp"
	"slices"
	"strings"
)

// keyLine finds what may be a secret in clear text: `key:`, `webhook:` and the like, also
// quoted or within braces, and whatever follows it.
var keyLine = regexp.MustCompile(`^(.*?\b(?:key|webhook|healthchecks|password|headers|token)["']?\s*:)(.*)$`)

// reference is a value that takes a key from outside and gives none away.
var reference = regexp.MustCompile(`^\s*["']?\$\{(?:file:)?[^}:]*(?::-)?\}["']?\s*[,}]?\s*(?:#.*)?$`)

// defaulted is a reference with a default, which gives one away.
var defaulted = regexp.MustCompile(`^\$\{[^}:]*:-[^}]+\}$`)

// userinfo is what an address has before its host, which may be a password.
var userinfo = regexp.MustCompile(`://[^/\s@"']*@`)

// urlLogin and urlQuery are the same of a `url:` that may be no address, or of a sink's path or catalog that
// is one, and what follows it after a question mark, which may be a token.
var (
	urlLogin = regexp.MustCompile(`(\b(?:url|duckdb|parquet|catalog|warehouse)["']?\s*:\s*["']?(?:\w+://)?).*@`)
	urlQuery = regexp.MustCompile(`(\b(?:url|duckdb|parquet|catalog|warehouse)["']?\s*:\s*["']?[^\s"'?#]+[?#])[^\s"',}]+`)
)

// azureKey is the secret part of a connection string of Azure Storage, or of a SAS token.
var azureKey = regexp.MustCompile(`(?i)\b((?:AccountKey|SharedAccessSignature|sig)=)[^;&\s"']+`)

// withoutKeys hides the user and password of addresses, and what follows `key:` unless it is
// a mere reference, together with the deeper lines below it, over which a text may go on. It
// works on bare lines, as there has to be an excerpt even of a file that is not YAML.
func withoutKeys(lines []string) []string {
	shown, hiding := slices.Clone(lines), -1
	for i, line := range lines {
		shown[i] = urlLogin.ReplaceAllString(line, "${1}********@")
		shown[i] = urlQuery.ReplaceAllString(shown[i], "${1}********")
		shown[i] = userinfo.ReplaceAllString(shown[i], "://********@")
		shown[i] = azureKey.ReplaceAllString(shown[i], "${1}********")
		depth := len(line) - len(strings.TrimLeft(line, " "))
		if hiding >= 0 && (depth > hiding || strings.TrimSpace(line) == "") {
			shown[i] = "********"
			continue
		}
		hiding = -1
		if m := keyLine.FindStringSubmatch(shown[i]); m != nil && !reference.MatchString(m[2]) {
			shown[i] = m[1] + " ********"
			hiding = depth
		}
	}
	return shown
}
