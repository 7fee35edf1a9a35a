package outlier

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// TransportOptions are the options of a [Transport].
type TransportOptions struct {
	CAFile string // PEM file of certificates to trust besides the system's; "" for none
}

// A Transport sends requests to a service where each may cost money. It speaks HTTP/1.1, because Go
// repeats requests on its own in more cases of HTTP/2. Answers stay as received. Proxies come from the
// environment. The verification of certificates cannot be disabled.
//
// A paid request has a connection of its own. Free ones share a kept connection, which saves a handshake
// (with TLS two or three round trips) and most of the CPU time of a call. See [unrepeatable] for why none
// is sent twice. After a free request has failed without an answer, free requests have connections of
// their own for a while too: a server or a gateway may handle kept connections badly.
type Transport struct {
	fresh *http.Transport // one connection per request
	kept  *http.Transport // for unrepeatable requests, which share one kept connection

	failed    atomic.Int64  // when a request on kept failed last, in nanoseconds since 1970
	keepAfter time.Duration // how long after that connections are kept again
}

// keptFor is how long an idle connection is kept: longer than the pause between calls at ten per minute,
// and shorter than the idle limit of most gateways.
const keptFor = 30 * time.Second

// NewTransport returns a transport with the given options.
func NewTransport(o TransportOptions) (*Transport, error) {
	roots, err := readCertificates(o.CAFile)
	if err != nil {
		return nil, err
	}
	if err := checkProxies(os.Getenv); err != nil {
		return nil, err
	}
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	fresh := &http.Transport{
		Proxy:                  chooseProxy,
		OnProxyConnectResponse: ProxyRefusal,
		DialContext:            dialCounting,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  defaultTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		Protocols:              http1,
	}
	kept := fresh.Clone()
	kept.DisableKeepAlives = false
	kept.ReadBufferSize = 64 << 10 // most answers arrive in one read
	kept.MaxIdleConns, kept.MaxIdleConnsPerHost, kept.IdleConnTimeout = 1, 1, keptFor
	return &Transport{fresh: fresh, kept: kept, keepAfter: time.Hour}, nil
}

// RoundTrip implements [http.RoundTripper]. If a proxy answered instead of forwarding the request, it returns
// a [*notForwardedError].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.sendOn(r)
	if err != nil {
		return nil, err
	}
	if proxy := t.keptBack(r, answer); proxy != nil {
		answer.Body.Close()
		return nil, &notForwardedError{proxy.Host}
	}
	return answer, nil
}

func (t *Transport) sendOn(r *http.Request) (*http.Response, error) {
	_, ok := r.Body.(unrepeatable)
	if !ok || time.Since(time.Unix(0, t.failed.Load())).Abs() < t.keepAfter {
		return t.fresh.RoundTrip(r)
	}
	answer, err := t.kept.RoundTrip(r)
	if err != nil {
		t.failed.Store(time.Now().UnixNano())
	}
	return answer, err
}

// unrepeatable is the body of a free GET: empty, and such that net/http cannot send it again. If a kept
// connection turns out to be closed, Go repeats a request on another one, although the server may have
// read it before closing. It does so for a GET without a body, or with a GetBody, and, if nothing was
// written, for a body of known length 0. This body exists, has no GetBody, and its length is unknown. It
// makes no difference on the wire: Go reads it before it writes the request, and finds it empty.
type unrepeatable struct{}

func (unrepeatable) Read([]byte) (int, error) { return 0, io.EOF }
func (unrepeatable) Close() error             { return nil }

// dialCounting makes connections that count the bytes written to them. It disables keep-alive probes, because the
// connections are short-lived.
func dialCounting(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: c}, nil
}

// counted is a connection that counts the bytes that the network accepted.
type counted struct {
	net.Conn
	written atomic.Int64
}

// Write implements [net.Conn].
func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// countedBelow returns the connection of [dialCounting] below TLS, or nil.
func countedBelow(conn net.Conn) *counted {
	for {
		switch c := conn.(type) {
		case *counted:
			return c
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// maxCertificates is the maximum size of a file of certificates, in bytes. The system's has less than one
// MiB.
const maxCertificates = 16 << 20

// readCertificates returns the system's certificates and those of the file; nil for the system's alone.
func readCertificates(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxCertificates) {
		return nil, fmt.Errorf("ca_file %s: must be a regular file of at most %d MiB", file, maxCertificates>>20)
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificates of ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca_file %s: no certificate in PEM form found", file)
	}
	return pool, nil
}

// checkProxies returns an error for a proxy address that net/http cannot use: it would ignore the address
// and call the service directly, which the proxy may be meant to prevent.
func checkProxies(env func(string) string) error {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		address := env(name)
		if address == "" || usableProxy(address) {
			continue
		}
		return fmt.Errorf("the proxy address in %s cannot be used: write http://HOST:PORT, "+
			"or unset %s to call the service directly", name, name)
	}
	return nil
}

func usableProxy(address string) bool {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme)
}

// chooseProxy hides a proxy address that cannot be parsed: it may contain a password.
func chooseProxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if err != nil {
		return nil, errors.New("the proxy address in the environment (HTTPS_PROXY, HTTP_PROXY) cannot be read")
	}
	return u, nil
}

// ProxyRefusal is for [http.Transport.OnProxyConnectResponse]. It returns an error if a proxy does not connect to a
// server. net/http would return the words of the proxy's status line alone, such as "Forbidden", as if the server had
// said so.
func ProxyRefusal(_ context.Context, proxy *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return fmt.Errorf("the proxy %s refused the connection: HTTP %d %s; check HTTPS_PROXY",
		proxy.Host, answer.StatusCode, http.StatusText(answer.StatusCode))
}

// keptBack returns the proxy that answered r itself; nil for none. Only a 407 proves that: it asks for the
// password of a proxy, which must say how to send it. Any other status may be the service's. A proxy that
// tunnels, as for https, cannot answer.
func (t *Transport) keptBack(r *http.Request, answer *http.Response) *url.URL {
	if r.URL.Scheme != "http" || answer.StatusCode != http.StatusProxyAuthRequired ||
		answer.Header.Get("Proxy-Authenticate") == "" {
		return nil
	}
	proxy, err := t.fresh.Proxy(r)
	if err != nil || proxy == nil || proxy.Scheme != "http" && proxy.Scheme != "https" {
		return nil
	}
	return proxy
}

// A notForwardedError says that a proxy refused a request, which the service therefore did not get.
type notForwardedError struct{ proxy string }

func (e *notForwardedError) Error() string {
	return fmt.Sprintf("the proxy %s did not forward the request: HTTP 407 Proxy Authentication Required; "+
		"check HTTP_PROXY", e.proxy)
}

// CheckURL parses the base address of a service, and returns it without a trailing slash. It must be
// https, unless it is on the loopback of this machine or allowHTTP is set, because every request contains
// the key. User, password, query and fragment are not allowed. The error never quotes a password.
func CheckURL(text string, allowHTTP bool) (*url.URL, error) {
	u, err := parseURL(text)
	if err != nil {
		return nil, fmt.Errorf("service address: %w", err)
	}
	switch {
	case u.User != nil, u.Host == "" && strings.Contains(text, "@"):
		return nil, errors.New("service address: user and password do not belong here; the key goes into service.key")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return nil, errors.New("service address: must have no query and no fragment") // the query may contain a token
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("service address %q: must begin with https://", text)
	case u.Hostname() == "":
		return nil, fmt.Errorf("service address %q: has no host", text)
	case u.Scheme == "http" && !allowHTTP && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("service address %q: http would send the key in clear text; use https, "+
			"or set service.allow_http", text)
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// parseURL is url.Parse with an error that does not quote the text, which may contain a password.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return nil, fmt.Errorf("not an address: %w", e.Err)
	}
	return u, err
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
