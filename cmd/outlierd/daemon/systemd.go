package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// The environment of a service of type notify: see sd_notify(3) and sd_watchdog_enabled(3). Messages
// are lines of the form NAME=value, sent as datagrams.
const (
	notifyVariable      = "NOTIFY_SOCKET" // a path, or @ and an abstract name
	watchdogVariable    = "WATCHDOG_USEC" // microseconds without a message after which the service is restarted
	watchdogPIDVariable = "WATCHDOG_PID"  // the process whose messages are expected; if it is not set, any process
)

// statusRunning is the service's status text while everything works.
const statusRunning = "STATUS=Running the schedules"

// sendTimeout limits the wait for a service manager that does not read its socket.
const sendTimeout = time.Second

// systemd is the service manager that started this process. If there is none, nothing is sent.
type systemd struct {
	socket net.Conn      // nil without a service manager
	every  time.Duration // interval of watchdog messages; 0 without a watchdog
	log    *slog.Logger
}

// newSystemd connects to the service manager named in the environment. If that fails, the process runs
// anyway, and the service manager decides.
func newSystemd(env func(string) (string, bool), log *slog.Logger) *systemd {
	s := &systemd{log: log}
	address, _ := env(notifyVariable)
	if address == "" {
		return s
	}
	socket, err := net.Dial("unixgram", address)
	if err != nil {
		log.Warn("service manager not reached", "variable", notifyVariable, "err", err)
		return s
	}
	s.socket = socket
	wanted, _ := env(watchdogVariable)
	pid, ofOne := env(watchdogPIDVariable)
	if micros, err := strconv.ParseInt(wanted, 10, 64); err == nil && (!ofOne || pid == strconv.Itoa(os.Getpid())) {
		s.every = time.Duration(micros) * time.Microsecond / 2
	}
	return s
}

// sendStates sends states in one datagram, so that the service manager applies them together.
func (s *systemd) sendStates(states ...string) {
	if s.socket == nil {
		return
	}
	err := s.socket.SetWriteDeadline(time.Now().Add(sendTimeout))
	if err == nil {
		_, err = s.socket.Write([]byte(strings.Join(states, "\n")))
	}
	if err != nil {
		s.log.Warn("service manager not notified", "states", states, "err", err)
	}
}

// serve reports that the schedule runs, until ctx ends, and then that this process stops. Watchdog
// messages are sent only while the schedule makes progress: stuck says for how long it has made none. If it
// is stuck, no message is sent, and the service is restarted.
func (s *systemd) serve(ctx context.Context, stuck func() time.Duration) {
	s.sendStates("READY=1", statusRunning)
	var tick <-chan time.Time
	if s.every > 0 {
		ticker := time.NewTicker(s.every)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-tick:
			if still := stuck(); still == 0 {
				s.sendStates("WATCHDOG=1", statusRunning)
			} else {
				s.sendStates(fmt.Sprintf("STATUS=The schedule has been stuck for %s", still.Round(time.Minute)))
			}
		case <-ctx.Done():
			s.sendStates("STOPPING=1", "STATUS=Stopping; a call in progress may finish")
			return
		}
	}
}
