package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

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
