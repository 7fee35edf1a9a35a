package job

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"outlierd/internal/lazyregexp"
)

// keyLine matches a line that may contain a secret in clear text: `key:`, `webhook:` and the like, also
// quoted or within braces, and whatever follows it. In the section `alerts`, where `key` names columns, it
// is alertLine.
var (
	keyLine   = sync.OnceValue(func() *regexp.Regexp { return matchLines(schema().SecretKeys()) })
	alertLine = sync.OnceValue(func() *regexp.Regexp {
		alert := schema().Definitions["alert"]
		return matchLines(slices.DeleteFunc(schema().SecretKeys(), func(key string) bool { return alert.Has(key) }))
	})
)

// matchLines returns an expression that matches lines with one of the keys, up to its colon and after it.
func matchLines(keys []string) *regexp.Regexp {
	return regexp.MustCompile(`^(.*?\b(?:` + strings.Join(keys, "|") + `)["']?\s*:)(.*)$`)
}

// section matches the first line of a section of the file, and its name. `service`, which has the key, may be
// indented by mistake.
var section = lazyregexp.New(`^["']?(\w+)["']?\s*:|\b(service)["']?\s*:`)

// reference matches a value that refers to a secret elsewhere and contains none.
var reference = lazyregexp.New(`^\s*["']?\$\{(?:(?:file:)?[^}:]*(?::-)?|command:[^}]*)\}["']?\s*[,}]?\s*(?:#.*)?$`)

// defaulted matches a reference with a default, which may contain one.
var defaulted = lazyregexp.New(`^\$\{[^}:]*:-[^}]+\}$`)

// hidden match what may be a secret anywhere in a line, after a first group that is shown.
var hidden = []func() *regexp.Regexp{
	// the user and password of a `url:` that may be no address, or of a sink's path or catalog that is one
	lazyregexp.New(`(\b(?:url|duckdb|parquet|catalog|warehouse)["']?\s*:\s*["']?(?:\w+://)?).*(@)`),
	// the query of an address, which may be a token
	lazyregexp.New(`(\b(?:url|duckdb|parquet|catalog|warehouse|to|thumbnails_proxy)["']?\s*:\s*["']?[^\s"'?#]+[?#])[^\s"',}]+`),
	// the part of an address before its host, which may be a password that itself has a slash
	lazyregexp.New(`(://)(?:[^/\s@"']*:[^\s"']*|[^/\s@"']*)(@)`),
	// a secret key of age, for example where its public key belongs
	lazyregexp.New(`(?i)\b(AGE-SECRET-KEY-)[A-Z0-9-]+`),
	// the secret part of a connection string of Azure Storage, or of a SAS token
	lazyregexp.New(`(?i)\b((?:AccountKey|SharedAccessSignature|sig)=)[^;&\s"']+`),
}

// withoutKeys hides the user and password of addresses, and the value of `key:` unless it is only a
// reference, including the more indented lines below, on which a text may continue. It works on plain
// lines, because excerpts are shown even of a file that is not YAML.
func withoutKeys(lines []string) []string {
	shown, hiding, secrets := slices.Clone(lines), -1, keyLine
	for i, line := range lines {
		if m := section().FindStringSubmatch(line); m != nil {
			secrets = keyLine
			if m[1] == "alerts" {
				secrets = alertLine
			}
		}
		for _, secret := range hidden {
			shown[i] = secret().ReplaceAllString(shown[i], "${1}********${2}")
		}
		depth := len(line) - len(strings.TrimLeft(line, " "))
		if hiding >= 0 && (depth > hiding || strings.TrimSpace(line) == "") {
			shown[i] = "********"
			continue
		}
		hiding = -1
		if m := secrets().FindStringSubmatch(shown[i]); m != nil && !reference().MatchString(m[2]) {
			shown[i] = m[1] + " ********"
			hiding = depth
		}
	}
	return shown
}

// Shown returns the text of the file and of those that it includes, without their secrets. Values of ${…} are not
// expanded.
func (c *Config) Shown() string {
	var all []string
	for i, s := range c.sources {
		if i > 0 {
			all = append(all, "# "+s.name)
		}
		all = append(all, strings.Join(withoutKeys(strings.Split(s.text, "\n")), "\n"))
	}
	return strings.Join(all, "\n")
}
