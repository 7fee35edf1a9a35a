package thumbnails

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// Hosts are the platform's image hosts. Pictures are fetched from no others.
var Hosts = []string{"i.ytimg.com", "i9.ytimg.com", "yt3.ggpht.com"}

// NewTransport returns a transport for the image hosts, directly or through a proxy, if it is not nil.
// The proxy variables of the environment are ignored. Without a proxy, it connects to public addresses
// only, whatever DNS says.
func NewTransport(proxy *url.URL) *http.Transport { return newTransport(proxy, net.Dialer{}) }

func newTransport(proxy *url.URL, dialer net.Dialer) *http.Transport {
	dialer.Timeout = maxFetch
	t := &http.Transport{
		TLSHandshakeTimeout: maxFetch, ResponseHeaderTimeout: maxFetch, MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout: time.Minute, MaxConnsPerHost: atOnce, DisableCompression: true, ForceAttemptHTTP2: true,
	}
	if proxy != nil {
		t.Proxy = http.ProxyURL(proxy) // it resolves names, and may have a private address itself
	} else {
		dialer.Control = refusePrivate
	}
	t.DialContext = dialer.DialContext
	return t
}

// refusePrivate refuses a connection to anything but a public web server. It is called with the address
// that the kernel connects to, after names are resolved.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err == nil && (!isPublic(to.Addr()) || to.Port() != 443) {
		err = fmt.Errorf("%s is not a public address of an image host", address)
	}
	return err
}

// Parts of the unicast addresses that are not public, or stand for other addresses (RFC 6890).
var (
	special = parsePrefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
		"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
	globalIPv6 = netip.MustParsePrefix("2000::/3") // without what is mapped or translated
)

func parsePrefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func isPublic(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && (ip.Is4() || ip.Zone() == "" && globalIPv6.Contains(ip)) &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// reasonOf returns a failure as a page shows it: without the addresses of machines, such as that of a proxy, which
// readers of the page need not know. The log has them.
func reasonOf(err error) error {
	at, isNetwork := errors.AsType[*net.OpError](err)
	name, isName := errors.AsType[*net.DNSError](err)
	switch {
	case isNetwork && at.Op == "proxyconnect":
		return fmt.Errorf("daemon.thumbnails_proxy cannot be reached: %w", reasonOf(at.Err))
	case isName && name.IsNotFound:
		return errors.New("no such host")
	case isName:
		return errors.New("the name of the host could not be resolved")
	case isNetwork:
		return reasonOf(at.Err)
	}
	return err
}
