package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Socket returns the path of the socket in a state folder.
func Socket(dir string) string { return filepath.Join(dir, "outlierd.sock") }

// longestPath is the maximum length of a socket path on all systems.
const longestPath = 103

// reachSocket calls f with a path to the socket that the system accepts. A path that is too long goes
// through an open descriptor of the folder.
func reachSocket(dir string, f func(path string) error) error {
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
// socket was left by a killed process. If the socket is deleted, the listener creates it again.
func Listen(dir string, log *slog.Logger) (net.Listener, error) {
	if err := os.Remove(Socket(dir)); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("remove the socket of an earlier process: %w", err)
	}
	folder, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder of the socket: %w", err)
	}
	l, file, err := bindSocket(dir)
	if err != nil {
		return nil, err
	}
	return &socket{dir: dir, folder: folder, log: log, l: l, file: file}, nil
}

// bindSocket creates the socket of a state folder and listens on it.
func bindSocket(dir string) (l *net.UnixListener, file fs.FileInfo, err error) {
	path := Socket(dir)
	err = reachSocket(dir, func(path string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil && len(path) > longestPath {
		err = fmt.Errorf("%w; the path has %d bytes and a socket's may have %d: use a data folder with a shorter path",
			err, len(path), longestPath)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // its path may no longer be valid
	err = os.Chmod(path, 0o600)
	if err == nil {
		file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("restrict access to the socket: %w", err), l.Close())
	}
	return l, file, nil
}

// checkEvery is how often a listener that waits for a connection checks that its file exists.
// Tests set it.
var checkEvery = 5 * time.Second

// socket is the listener of a state folder. Its file may be deleted, and the whole folder may be
// moved away and replaced by that of another daemon, whose socket must stay.
type socket struct {
	dir    string
	folder fs.FileInfo // dir, as this process has locked it
	log    *slog.Logger
	warned bool // the last attempt to create the file again failed

	mu     sync.Mutex // guards the following fields
	l      *net.UnixListener
	file   fs.FileInfo
	closed bool
}

// Accept implements [net.Listener].
func (s *socket) Accept() (net.Conn, error) {
	for {
		l, err := s.nextListener()
		if err != nil {
			return nil, err
		}
		conn, err := l.Accept()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
		if err := s.recreateSocket(); err != nil && !s.warned {
			s.log.Warn("socket not created again; other commands cannot work beside this process", "err", err)
			s.warned = true
		}
	}
}

// nextListener returns the listener for the next connection, which is waited for until the next check.
func (s *socket) nextListener() (*net.UnixListener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.l, s.l.SetDeadline(time.Now().Add(checkEvery))
}

// recreateSocket creates the file again if it was deleted from the folder that this process has locked.
func (s *socket) recreateSocket() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	folder, err := os.Stat(s.dir)
	if s.closed || err != nil || !os.SameFile(folder, s.folder) {
		return nil // the engine reports a folder that was moved away
	}
	if _, err := os.Lstat(Socket(s.dir)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, file, err := bindSocket(s.dir)
	if err != nil {
		return err
	}
	s.log.Warn("socket was deleted; created again", "socket", Socket(s.dir))
	old := s.l
	s.l, s.file, s.warned = l, file, false
	return old.Close()
}

// Close implements [net.Listener]. It removes the file, unless that belongs to another process.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	file, err := os.Lstat(Socket(s.dir)) // before its inode number can be reused
	own := err == nil && os.SameFile(file, s.file)
	err = s.l.Close()
	if own {
		if failed := os.Remove(Socket(s.dir)); err == nil && !errors.Is(failed, fs.ErrNotExist) {
			err = failed
		}
	}
	return err
}

// Addr implements [net.Listener].
func (s *socket) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.l.Addr()
}
