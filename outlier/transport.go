package outlier

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// NewTransport returns a transport to a service where each request may cost money. It speaks HTTP/1.1, because Go
// repeats requests on its own in more cases of HTTP/2, and each request has a connection of its own, because Go
// may repeat one if a kept connection turns out to be closed. Answers stay as received. Proxies come from the
// environment. The verification of certificates cannot be disabled. caFile is a PEM file of certificates to trust
// besides the system's; "" for none.
func NewTransport(caFile string) (*http.Transport, error) {
	roots, err := readCertificates(caFile)
	if err != nil {
		return nil, err
	}
	if err := checkProxies(os.Getenv); err != nil {
		return nil, err
	}
	http1 := new(http.Protocols)
	http1.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  chooseProxy,
		OnProxyConnectResponse: ProxyRefusal,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: -1}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  defaultTimeout,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		Protocols:              http1,
	}, nil
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
	case u.Scheme == "http" && !allowHTTP && !IsLoopback(u.Hostname()):
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

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
