// Package serve lets commands work while a daemon has locked the state folder.
//
// The daemon listens on a unix socket in that folder, which only its user can access, and serves
// JSON over HTTP. A command reads the state itself, and prints everything that people see. Only
// changes of the state are sent over the socket: a run that a person asks for ([Order]), and small
// changes such as setting a cursor ([Change]). The daemon's engine performs both between two of its
// own calls.
//
// Below /api/v1 are the handlers for other programs, which the daemon also serves over HTTP ([Server.API]). All other
// paths are for commands. The [Version] is part of each, as in /v1/runs. A command that finds another version reports
// both and does nothing.
//
//   - GET /v1 answers with [About].
//   - POST /v1/login answers with [Ticket].
//   - POST /v1/runs takes an [Order], the job in it with the hash of what the command has read. The answer has an [Event] a line:
//     the run, once it is recorded or the one in progress is joined, and how it ended. What it does meanwhile is in the state.
//     Closing the connection does not stop the run.
//   - POST /v1/runs/{id}/cancel stops a run between two calls.
//   - POST with a [Change] at its path answers with the result of the change.
//
// An error is {"error": Failure}. The kinds of [Failure] decide the exit code of the command: service:KIND of
// [outlier.Error], and the names in the table kinds. A request may have at most 1 MiB and must arrive within 10
// seconds.
package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"outlierd/sync/store"
)

// Version is the version of the interface. It is incremented by every change that an older command
// or daemon would misread.
const Version = 1

// About describes the daemon: GET /v1.
type About struct {
	Interface int       `json:"interface"` // its [Version]
	Program   string    `json:"version"`
	PID       int       `json:"pid"`
	Config    string    `json:"config"` // path of the job file
	Started   time.Time `json:"started"`

	Stuck   store.Seconds `json:"stuck_seconds,omitzero"` // see [Server.Stuck]
	Page    string        `json:"page,omitempty"`         // the address of its page, if it serves one
	Refused string        `json:"refused,omitempty"`      // why the job file is not in use, as it was read last
	// Changed says when the job file is read again if it differs from the one in use and from the refused one: [ReadSoon]
	// or [ReadOnSignal].
	Changed string `json:"changed,omitempty"`
}

// Ticket logs one browser in to the page of a daemon, once and within a minute: POST /v1/login.
type Ticket struct {
	Path string `json:"path"` // path of the page, with a secret
}

// When a job file that has changed is read again.
const (
	ReadSoon     = "soon"
	ReadOnSignal = "signal"
)

// Name returns the daemon's name for messages.
func (a *About) Name() string { return fmt.Sprintf("'outlierd up' (process %d)", a.PID) }

// Socket returns the path of the socket in a state folder.
func Socket(dir string) string { return filepath.Join(dir, "outlierd.sock") }

// maxPath is the maximum length of a socket path on all systems.
const maxPath = 103

// reachSocket calls f with a path to the socket that the system accepts. A path that is too long goes
// through an open descriptor of the folder.
func reachSocket(dir string, f func(path string) error) error {
	path := Socket(dir)
	if len(path) <= maxPath {
		return f(path)
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f(filepath.Join("/proc/self/fd", fmt.Sprint(folder.Fd()), filepath.Base(path)))
	if failed := folder.Close(); err == nil {
		err = failed
	}
	return err
}

// Listen listens on the socket of a state folder, which this process must have locked: an existing socket was left by
// an earlier process. Close leaves the socket, too, since the folder may have been replaced by that of another daemon.
func Listen(dir string) (net.Listener, error) {
	path := Socket(dir)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("remove the socket of an earlier process: %w", err)
	}
	var l *net.UnixListener
	err := reachSocket(dir, func(path string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil && len(path) > maxPath {
		err = fmt.Errorf("%w; the path has %d bytes and a socket's may have %d: use a data folder with a shorter path",
			err, len(path), maxPath)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("restrict access to the socket: %w", err), l.Close())
	}
	return l, nil
}
