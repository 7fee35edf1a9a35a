package thumbnails

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestOnlyPublicAddressesAreConnectedTo(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"142.250.74.22:443": true, "[2a00:1450:4001:828::2016]:443": true,
		"142.250.74.22:80": false, "142.250.74.22:8443": false,
		"127.0.0.1:443": false, "127.8.8.8:443": false, "0.0.0.0:443": false, "0.1.2.3:443": false,
		"10.0.0.1:443": false, "172.16.0.1:443": false, "172.31.255.255:443": false, "192.168.1.1:443": false,
		"169.254.169.254:443": false, "100.64.0.1:443": false, "100.127.255.255:443": false, "192.0.0.1:443": false,
		"198.18.0.1:443": false, "224.0.0.1:443": false, "239.1.1.1:443": false, "240.0.0.1:443": false, "255.255.255.255:443": false,
		"[::]:443": false, "[::1]:443": false, "[fe80::1%eth0]:443": false, "[fe80::1]:443": false, "[fc00::1]:443": false,
		"[fd00:ec2::254]:443": false, "[ff02::1]:443": false, "[fec0::1]:443": false, "[2001:db8::1]:443": false,
		"[::ffff:127.0.0.1]:443": false, "[::ffff:142.250.74.22]:443": false, "[::127.0.0.1]:443": false, // mapped
		"[64:ff9b::7f00:1]:443": false, "[64:ff9b:1::7f00:1]:443": false, "[2002:7f00:1::]:443": false, "[2001:0:7f00:1::]:443": false, // translated
		"nonsense": false,
	} {
		if err := refusePrivate("tcp", address, nil); (err == nil) != public {
			t.Errorf("%s: %v, want public %t", address, err, public)
		}
	}
}

// A name that leads to this machine is refused when the connection is made, so that it does not matter
// what DNS said before.
func TestReboundNamesAreNotConnectedTo(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, ip := range []string{"127.0.0.1", "169.254.169.254", "10.0.0.1"} {
		resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go serveDNS(theirs, netip.MustParseAddr(ip))
			return ours, nil
		}}
		transport := newTransport(nil, net.Dialer{Resolver: resolver})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://i.ytimg.com/a.jpg", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(r)
		if err == nil {
			answer.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), ip+":443 is not a public address") {
			t.Errorf("i.ytimg.com at %s: %v", ip, err)
		}
	}
}

// serveDNS says that every name has an address. It speaks DNS over TCP (RFC 1035).
func serveDNS(conn net.Conn, ip netip.Addr) {
	defer conn.Close()
	for {
		size := make([]byte, 2)
		if _, err := io.ReadFull(conn, size); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		end := 12 // of the question, after the header
		for question[end] != 0 {
			end += 1 + int(question[end])
		}
		kind := binary.BigEndian.Uint16(question[end+1:])
		reply := append([]byte{}, question[:end+5]...)
		copy(reply[2:12], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0})
		if kind == 1 { // A
			reply[7] = 1
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			reply = append(reply, ip.AsSlice()...)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

func TestOnlyTheConfiguredProxyIsUsed(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("ALL_PROXY", "http://127.0.0.1:1")
	if NewTransport(nil).Proxy != nil {
		t.Error("a proxy is used without a setting")
	}
	var asked string
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.Host
		w.WriteHeader(http.StatusForbidden)
	})}
	go func() { _ = server.Serve(l) }() // until the test ends
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := NewTransport(&url.URL{Scheme: "http", Host: l.Addr().String()}).RoundTrip(r)
	if err == nil {
		answer.Body.Close()
	}
	if err == nil || asked != "CONNECT i.ytimg.com:443" {
		t.Errorf("the proxy was asked %q: %v", asked, err)
	}
}

func TestNoticeNamesNoProxy(t *testing.T) {
	t.Parallel()
	p := open(t, NewTransport(&url.URL{Scheme: "http", User: url.UserPassword("me", "secret"), Host: "127.0.0.1:1"}))
	for range maxFailures {
		w := p.want(http.StatusBadGateway, "a")
		for _, text := range []string{w.Body.String(), fmt.Sprint(p.Trouble())} {
			if strings.Contains(text, "127.0.0.1") || strings.Contains(text, "secret") {
				t.Errorf("a page is told %q", text)
			}
		}
	}
	if err := p.Trouble(); err == nil || !strings.Contains(err.Error(), "daemon.thumbnails_proxy cannot be reached: ") {
		t.Errorf("the notice is %v", err)
	}
}
