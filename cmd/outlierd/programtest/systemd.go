package programtest

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// ServiceManager is the receiving end of a socket of systemd's protocol.
type ServiceManager struct {
	testing.TB
	socket *net.UnixConn
}

// ListenAsSystemd returns the receiver at an address, which may be abstract: "@name".
func ListenAsSystemd(t testing.TB, address string) *ServiceManager {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return &ServiceManager{TB: t, socket: socket}
}

// Want waits for the next datagram, which must have exactly these states.
func (m *ServiceManager) Want(states ...string) {
	m.Helper()
	datagram := make([]byte, 4096)
	if err := m.socket.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		m.Fatal(err)
	}
	n, err := m.socket.Read(datagram)
	if err != nil {
		m.Fatal(err)
	}
	if got := strings.Split(string(datagram[:n]), "\n"); !slices.Equal(got, states) {
		m.Errorf("the service manager received %q, want %q", got, states)
	}
}
