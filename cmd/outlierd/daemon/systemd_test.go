package daemon

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWatchdogFollowsTheSchedule: it is notified while the schedule makes progress, and not while the schedule is
// stuck, whatever the rest of the process does.
func TestWatchdogFollowsTheSchedule(t *testing.T) {
	t.Parallel()
	const stopping = "STOPPING=1\nSTATUS=Stopping; a call in progress may finish"
	for name, c := range map[string]struct {
		beat func() time.Time
		env  map[string]string
		want string
	}{
		"goes on":         {time.Now, nil, "WATCHDOG=1\n" + statusRunning},
		"stuck":           {func() time.Time { return time.Now().Add(-stuckAfter - time.Second) }, nil, "STATUS=The schedule has been stuck for 10m0s"},
		"never began":     {func() time.Time { return time.Time{} }, nil, "STATUS=The schedule has been stuck for 1h0m0s"},
		"another's":       {time.Now, map[string]string{watchdogPIDVariable: "1"}, stopping},
		"no watchdog":     {time.Now, map[string]string{watchdogVariable: ""}, stopping},
		"not a number":    {time.Now, map[string]string{watchdogVariable: "10min"}, stopping},
		"of this process": {time.Now, map[string]string{watchdogPIDVariable: strconv.Itoa(os.Getpid())}, "WATCHDOG=1\n" + statusRunning},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := filepath.Join(t.TempDir(), "notify")
			manager := listenAsSystemd(t, address)
			s := newSystemd(func(name string) (string, bool) {
				value, set := c.env[name]
				if !set {
					value, set = map[string]string{notifyVariable: address, watchdogVariable: "20000"}[name]
				}
				return value, set
			}, slog.New(slog.DiscardHandler))
			s.began = time.Now().Add(-time.Hour)
			ctx, stop := context.WithCancel(t.Context())
			var serving sync.WaitGroup
			serving.Go(func() { s.serve(ctx, c.beat) })
			manager.want("READY=1", "STATUS=Running the schedules")
			if c.want == stopping {
				stop()
			}
			manager.want(strings.Split(c.want, "\n")...)
			stop()
			serving.Wait()
		})
	}
}

// serviceManager is the receiving end of a socket of systemd's protocol.
type serviceManager struct {
	testing.TB
	socket *net.UnixConn
}

func listenAsSystemd(t testing.TB, address string) *serviceManager {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return &serviceManager{TB: t, socket: socket}
}

// want waits for the next datagram, which must have exactly these states.
func (m *serviceManager) want(states ...string) {
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
