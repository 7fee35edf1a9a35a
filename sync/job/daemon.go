package job

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"outlierd/sync/yamltree"
)

// Daemon says what `outlierd up` offers while it runs.
type Daemon struct {
	Listen string // HOST:PORT of the page, health and metrics; "" to offer nothing
	Token  Secret // that requests must have; empty for none
	Reload string // ReloadAuto or ReloadSignal
	UI     string // UIFull, UIView or UIOff
}

// Whether `up` offers a page for browsers: the values of daemon.ui.
const (
	UIFull = "full" // it shows, and lets people who have logged in change things
	UIView = "view" // it shows, and changes nothing
	UIOff  = "off"
)

// When `up` reads the job file again: the values of daemon.reload.
const (
	ReloadAuto   = "auto"   // when the file has changed, or on SIGHUP
	ReloadSignal = "signal" // on SIGHUP only
)

// Private reports whether only this machine can reach what the daemon offers.
func (d Daemon) Private() bool {
	host, _, err := net.SplitHostPort(d.Listen)
	return d.Listen == "" || err == nil && loopback(host)
}

// DaemonOf is where a daemon of the file at path has its data and answers, however much else of the
// file is wrong: one that runs outlives a file that was broken since.
func DaemonOf(path string, env func(string) (string, bool)) (data string, d Daemon) {
	src, _ := yamltree.ReadFile(path, path, yamltree.MaxBytes) // a file that is gone has the defaults
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		dir = filepath.Dir(path)
	}
	b := newBuilder(path, []byte(src), env)
	if b.root = b.file.Parse(); b.root == nil {
		b = newBuilder(path, []byte(sections(src, "data", "daemon")), env)
		b.root = b.file.Parse()
	}
	b.cfg.Dir = dir
	for _, key := range []string{"data", "daemon"} {
		yamltree.Variables{Env: env, Dir: dir}.Expand(b.root.Get(key), false)
	}
	b.data(b.root.Get("data"))
	b.daemon(b.root.Get("daemon"))
	return b.cfg.Data, b.cfg.Daemon
}

// sections are the lines of a file below some of its keys, and those of the keys.
func sections(src string, keys ...string) string {
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

func (b *builder) daemon(n *yamltree.Node) {
	d := &b.cfg.Daemon
	d.Reload = n.Get("reload").TextOr(ReloadAuto)
	d.UI = n.Get("ui").TextOr(UIFull)
	d.Token = b.token(n.Get("token"))
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

// token is as secret as the key. A short one could be guessed.
func (b *builder) token(n *yamltree.Node) Secret {
	const hint = `take it from a variable or a file: "${OUTLIERD_TOKEN}" or "${file:/run/secrets/outlierd_token}"`
	switch {
	case !n.Has(yamltree.Text, yamltree.Whole, yamltree.Number):
	case defaulted.MatchString(n.Raw):
		n.RefuseWithHint(`leave it out, as in "${OUTLIERD_TOKEN}"`, "the default after :- is a token in clear text")
	case n.Raw != "" && !reference.MatchString(n.Raw):
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
