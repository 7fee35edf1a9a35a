package job

import (
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"outlierd/sync/yamltree"
)

// Daemon has the settings of what `outlierd up` serves while it runs.
type Daemon struct {
	Listen string // HOST:PORT of the page, health and metrics; "" for none
	Token  Secret // required of requests; empty for none
	Reload string // ReloadAuto or ReloadSignal
	UI     string // UIFull, UIView or UIOff

	Thumbnails      string   // ThumbnailsProxy, ThumbnailsDirect or ThumbnailsOff
	ThumbnailsCache int64    // maximum size of the cache of the daemon, in bytes
	ThumbnailsProxy *url.URL // through which it fetches them; nil for none
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
	ThumbnailsOff    = "off"    // nobody
)

// defaultThumbnailsCache has room for about 20,000 pictures.
const defaultThumbnailsCache = 256e6

// The values of daemon.reload: when `up` reads the job file again.
const (
	ReloadAuto   = "auto"   // when the file has changed, or on SIGHUP
	ReloadSignal = "signal" // on SIGHUP only
)

// Private reports whether only this machine can reach the daemon.
func (d Daemon) Private() bool {
	host, _, err := net.SplitHostPort(d.Listen)
	return d.Listen == "" || err == nil && isLoopback(host)
}

// DaemonOf returns the data folder and the daemon settings of the file at path, even if the rest of the
// file is invalid: a daemon keeps running after its file was broken.
func DaemonOf(path string, env func(string) (string, bool)) (data string, d Daemon) {
	src, _ := yamltree.ReadFile(path, path, yamltree.MaxBytes) // a missing file has the defaults
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		dir = filepath.Dir(path)
	}
	b := newBuilder(path, []byte(src), env)
	if b.root = b.file.Parse(); b.root == nil {
		b = newBuilder(path, []byte(cutSections(src, "data", "daemon")), env)
		b.root = b.file.Parse()
	}
	b.cfg.Dir = dir
	for _, key := range []string{"data", "daemon"} {
		yamltree.Variables{Env: env, Dir: dir}.Expand(b.root.Get(key), false)
	}
	b.readData(b.root.Get("data"))
	b.readDaemon(b.root.Get("daemon"))
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

func (b *builder) readDaemon(n *yamltree.Node) {
	d := &b.cfg.Daemon
	d.Reload = n.Get("reload").TextOr(ReloadAuto)
	d.UI = n.Get("ui").TextOr(UIFull)
	d.Token = b.readToken(n.Get("token"))
	d.Thumbnails = n.Get("thumbnails").TextOr(ThumbnailsProxy)
	b.readThumbnails(n)
	listen := n.Get("listen")
	if !listen.Has(yamltree.Text) || listen.Text == "" {
		return
	}
	_, number, err := net.SplitHostPort(listen.Text)
	if port, _ := strconv.Atoi(number); err != nil || port < 1 || port > 65535 {
		listen.Refuse("must be HOST:PORT with a port from 1 to 65535, such as 127.0.0.1:7411, got %s", listen.Shown())
		return
	}
	d.Listen = listen.Text
	if token := n.Get("token"); d.Token.Reveal() == "" && !d.Private() && (token == nil || !token.Wrong) {
		listen.RefuseWithHint(`use 127.0.0.1, or add token: "${OUTLIERD_TOKEN}"`,
			"other machines can reach %s, which needs daemon.token", listen.Shown())
	}
}

// readThumbnails reads how the daemon fetches and keeps pictures.
func (b *builder) readThumbnails(n *yamltree.Node) {
	d := &b.cfg.Daemon
	d.ThumbnailsCache = defaultThumbnailsCache
	if size := n.Get("thumbnails_cache"); size.Has(yamltree.Text) {
		bytes, err := parseSize(size.Text)
		if err != nil {
			size.RefuseQuoting(err.Error())
		}
		d.ThumbnailsCache = bytes
	}
	if proxy := n.Get("thumbnails_proxy"); proxy.Has(yamltree.Text) && proxy.Text != "" {
		u, err := url.Parse(proxy.Text)
		if err != nil || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) || u.Hostname() == "" ||
			u.User != nil || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
			proxy.Refuse("must be the address of a proxy without a password, such as http://proxy.example:3128")
			return
		}
		d.ThumbnailsProxy = u
	}
}

// readToken reads a token, which is as secret as the key. A short one could be guessed.
func (b *builder) readToken(n *yamltree.Node) Secret {
	const hint = `take it from a variable or a file: "${OUTLIERD_TOKEN}" or "${file:/run/secrets/outlierd_token}"`
	switch {
	case !n.Has(yamltree.Text, yamltree.Whole, yamltree.Number):
	case defaulted().MatchString(n.Raw):
		n.RefuseWithHint(`leave it out, as in "${OUTLIERD_TOKEN}"`, "the default after :- is a token in clear text")
	case n.Raw != "" && !reference().MatchString(n.Raw):
		n.RefuseWithHint(hint, "the token is written in clear text")
	case strings.ContainsFunc(n.Text, func(r rune) bool { return r <= ' ' || r > '~' }):
		n.Refuse("has a space, a line break or a letter that is not ASCII")
	case n.Text != "" && len(n.Text) < leastToken:
		n.RefuseWithHint("`openssl rand -hex 32` makes one", "must have at least %d characters", leastToken)
	case n.Text != "":
		return Secret{new(n.Text)}
	}
	return Secret{}
}

const leastToken = 16
