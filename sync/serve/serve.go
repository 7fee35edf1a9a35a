// Package serve lets commands work while a daemon has locked the state folder.
//
// The daemon listens on a unix socket in that folder, which only its user can access, and serves
// JSON over HTTP. A command reads the state itself, and prints everything that people see. Only
// changes of the state are sent over the socket: a run that a person asks for ([Order]), and small
// changes such as setting a cursor ([Change]). The daemon's engine performs both between two of its
// own calls.
//
// docs/daemon.md describes the interface. Its version is part of every path; a command that finds
// another version reports it and does nothing.
package serve

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Version is the version of the interface. It is incremented by every change that an older command
// or daemon would misread.
const Version = 1

// About describes the daemon: GET /v1.
type About struct {
	Interface int       `json:"interface"` // its Version
	Program   string    `json:"version"`
	PID       int       `json:"pid"`
	Config    string    `json:"config"` // path of the job file
	Started   time.Time `json:"started"`
	State     string    `json:"state"`             // starting, serving or stopping
	Refused   string    `json:"refused,omitempty"` // why the job file as it is on disk is not the one in use
	Changed   string    `json:"changed,omitempty"` // when the job file is read again, as it differs from the one in use: [ReadSoon] or [ReadOnSignal]
}

// Ticket logs one browser in to the page of a daemon, once and within a minute: POST /v1/login.
type Ticket struct {
	Path string `json:"path"` // of the page, with a secret
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

// longestPath is the maximum length of a socket path on all systems.
const longestPath = 103

// reach calls f with a path to the socket that the system accepts. A path that is too long goes
// through an open descriptor of the folder.
func reach(dir string, f func(path string) error) error {
	path := Socket(dir)
	if len(path) <= longestPath {
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

// Listen listens on the socket of a state folder, which this process must have locked: an existing
// socket was left by a killed process.
func Listen(dir string) (net.Listener, error) {
	path := Socket(dir)
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("remove the socket of an earlier process: %w", err)
	}
	var l *net.UnixListener
	err := reach(dir, func(path string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil && len(path) > longestPath {
		err = fmt.Errorf("%w; the path has %d bytes and a socket's may have %d: use a data folder with a shorter path",
			err, len(path), longestPath)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // by a path that may be good no longer
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("restrict access to the socket: %w", err)
	}
	return &socket{l, path}, nil
}

// socket removes its file when it is closed.
type socket struct {
	*net.UnixListener
	path string
}

func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if failed := os.Remove(s.path); err == nil && !os.IsNotExist(failed) {
		err = failed
	}
	return err
}
