package job

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"outlierd/outlier"
	"outlierd/sync/yamltree"
)

// Daemon has the settings of what `outlierd up` serves while it runs.
type Daemon struct {
	Listen    string `key:"listen"`     // HOST:PORT of the page, the interface, health and metrics; "" for none
	Token     Secret `key:"token"`      // allows a request everything; empty for none
	ReadToken Secret `key:"read_token"` // allows a request to read; empty for none
	Reload    string `key:"reload"`     // ReloadAuto or ReloadSignal
	UI        string `key:"ui"`         // UIFull, UIView or UIOff

	Thumbnails      string   `key:"thumbnails"`       // ThumbnailsProxy, ThumbnailsDirect or ThumbnailsOff
	ThumbnailsCache int64    `key:"thumbnails_cache"` // maximum size of the cache of the daemon, in bytes
	ThumbnailsProxy *url.URL `key:"thumbnails_proxy"` // through which it fetches them; nil for none
}

// The values of daemon.ui: whether `up` serves a page for browsers.
const (
	UIFull = "full" // shows everything, and lets people who have logged in make changes
	UIView = "view" // shows everything, and changes nothing
	UIOff  = "off"
)

// The values of daemon.thumbnails: who fetches the pictures of videos on the page.
const (
	ThumbnailsProxy  = "proxy"  // the daemon, once
	ThumbnailsDirect = "direct" // each browser, from the platform
	ThumbnailsOff    = "off"    // not at all
)

// The values of daemon.reload: when `up` reads the job file again.
const (
	ReloadAuto   = "auto"   // when the file has changed, or on SIGHUP
	ReloadSignal = "signal" // on SIGHUP only
)

// Private reports whether only this machine can reach the daemon.
func (d Daemon) Private() bool {
	host, _, err := net.SplitHostPort(d.Listen)
	return d.Listen == "" || err == nil && outlier.IsLoopback(host)
}

// Guarded reports whether requests need a token.
func (d Daemon) Guarded() bool { return d.Token != Secret{} || d.ReadToken != Secret{} }

// DaemonOf returns the data folder and the daemon settings of the file at path, even if the rest of the
// file is invalid: a daemon keeps running after its file was broken.
func DaemonOf(path string, env func(string) (string, bool)) (data string, d Daemon) {
	src, _ := yamltree.ReadFile(path, path, yamltree.MaxBytes) // a missing file has the defaults
	b := newBuilder([]source{{path, src}}, env, needs{})
	if b.readTree(); b.root == nil {
		b = newBuilder([]source{{path, cutSections(src, "data", "daemon")}}, env, needs{})
		b.readTree()
	}
	readKeys(b.cfg, schema(), b.root)
	b.placeData(b.root.Get("data"))
	checkTokens(b.cfg, b.root.Get("daemon"))
	return b.cfg.Data, b.cfg.Daemon
}

// cutSections returns the lines of a file with the given keys and those nested in them.
func cutSections(src string, keys ...string) string {
	var b strings.Builder
	within := false
	for line := range strings.Lines(src) {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, " ") {
			key, _, _ := strings.Cut(line, ":")
			within = slices.Contains(keys, key)
		}
		if within {
			b.WriteString(line)
		}
	}
	return b.String()
}

// checkTokens refuses a daemon without protection. An address that other machines can reach needs one.
func checkTokens(c *Config, n *yamltree.Node) {
	d, listen, token, reading := &c.Daemon, n.Get("listen"), n.Get("token"), n.Get("read_token")
	wrong := token != nil && token.Wrong || reading != nil && reading.Wrong
	switch {
	case !d.Guarded() && !d.Private() && !wrong:
		listen.RefuseWithHint(`use 127.0.0.1, or add token: "${OUTLIERD_TOKEN}"`,
			"other machines can reach %s, which needs daemon.token", listen.Shown())
	case d.Guarded() && d.Token.Reveal() == d.ReadToken.Reveal():
		reading.Refuse("is the same as daemon.token, which also starts runs")
	}
}

// parseToken parses a token, which is as secret as the key. A short one could be guessed.
func parseToken(text string) (Secret, error) {
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return Secret{}, errors.New("has a space, a line break or a letter that is not ASCII")
	case len(text) < minToken:
		return Secret{}, fmt.Errorf("must have at least %d characters; `openssl rand -hex 32` makes one", minToken)
	}
	return Secret{&text}, nil
}

const minToken = 16

// Assistants has the settings of `outlierd mcp`, the server for assistants.
type Assistants struct {
	Token      Secret          `key:"token"`              // required of requests over HTTP
	PerDay     outlier.Credits `key:"budget.per_day"`     // what all assistants may spend on one day
	PerSession outlier.Credits `key:"budget.per_session"` // what one session may spend
}
