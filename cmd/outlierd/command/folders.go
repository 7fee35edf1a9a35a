package command

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"outlierd/cmd/outlierd/report"
	"outlierd/internal/durable"
	"outlierd/sync/job"
	"outlierd/sync/store"
)

// # Problems of the environment
//
// In a container, the program often meets for the first time a volume of another user, a read-only root
// file system, a full disk, or missing certificates. Each of these is reported at the start, in one
// message with the remedy. Time zone data is part of the program.

// explainUnwritable adds the remedy to an error of writing to the data folder. Other errors are returned
// unchanged.
func explainUnwritable(err error, folder string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; %s", err, accessRemedy(err, folder))
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w; mount %s so that user %d may write to it, or set OUTLIERD_DATA to a folder elsewhere",
			err, folder, os.Getuid())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; %s on the disk of %s, stored data is not lost", err, store.Remedy(existing(folder)), folder)
	}
	return err
}

// accessRemedy returns what a user lacks who was denied a change in a folder. Write access is not always enough: some
// changes are the owner's alone.
func accessRemedy(err error, folder string) string {
	at, user := folder, os.Getuid()
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		at = existing(e.Path)
	}
	info, unknown := os.Stat(at)
	if unknown != nil || unix.Access(at, unix.W_OK) != nil {
		return fmt.Sprintf("user %d needs write access to %s and everything in it", user, folder)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != user {
		return fmt.Sprintf("user %d may write to %s, but this is for its owner alone: run outlierd as user %d, "+
			"or 'chown -R %d %s'", user, at, stat.Uid, user, folder)
	}
	return fmt.Sprintf("user %d may write to %s, and something else denies it, such as an attribute (lsattr) "+
		"or a policy of the system", user, at)
}

// warnOfRoot warns root of a data folder that belongs to another user, such as that of a daemon: this user
// could not use the files that root creates.
func warnOfRoot(log *slog.Logger, folder string) {
	info, err := os.Stat(folder)
	if err != nil || os.Geteuid() != 0 {
		return
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
		log.Warn("running as root in the data folder of another user, who cannot use the files that are created now",
			"owner", stat.Uid, "remedy", fmt.Sprintf("chown -R %d:%d %s", stat.Uid, stat.Gid, report.Path(folder)))
	}
}

// checkTrust returns an error if the service's certificate cannot be verified because the system has no
// CA certificates. Otherwise every call would fail with an error about the certificate.
func checkTrust(service job.Service) error {
	if service.CAFile != "" || !strings.HasPrefix(service.URL, "https:") {
		return nil
	}
	system, err := x509.SystemCertPool()
	if err == nil && !system.Equal(x509.NewCertPool()) {
		return nil
	}
	return fmt.Errorf("verify the certificate of %s: this system has no CA certificates; "+
		"install them (Debian's package ca-certificates), mount them at /etc/ssl/certs, "+
		"or name a file in service.ca_file", service.URL)
}

// workFolders are the names of the folders in which check builds tables, a backup to a bucket makes its copy, and
// the results of downloads are kept until they are sent.
const workFolders = "work-*"

// temporary is a folder on which its process holds a lock, so that other processes can tell which folders killed
// processes have left.
type temporary struct {
	path string
	lock *os.File
}

// newTemporary creates a folder on the disk of the data.
func newTemporary(config *job.Config) (*temporary, error) {
	above := temporaryFolder(config)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return nil, explainUnwritable(err, config.Data)
	}
	t, err := makeTemporary(above, workFolders)
	return t, explainUnwritable(err, config.Data)
}

// makeTemporary creates a folder in another one, and removes those that killed processes of this user have left.
func makeTemporary(above, pattern string) (*temporary, error) {
	left, err := durable.Match(above, pattern)
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		if isOwnFolder(path) {
			_ = removeUnlocked(path) // the next process tries again
		}
	}
	for {
		path, err := os.MkdirTemp(above, pattern)
		if err != nil {
			return nil, err
		}
		lock, err := os.Open(path)
		if err == nil {
			err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		}
		if isMissing(path) { // another process took it for one of a killed process, before it was locked
			_ = lock.Close()
			continue
		}
		t := &temporary{path, lock}
		if err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, unix.ENOLCK) { // without locks nothing is removed
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), t.Close())
		}
		return t, nil
	}
}

// isOwnFolder reports whether there is a folder of this user at a path. Others may put anything there where all users
// keep temporary files.
func isOwnFolder(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, is := info.Sys().(*syscall.Stat_t)
	return is && int(stat.Uid) == os.Geteuid()
}

// Close removes the folder.
func (t *temporary) Close() error {
	if t == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(t.path), t.lock.Close())
}

// systemTemporary creates a folder where the system keeps temporary files.
func systemTemporary(pattern string) (*temporary, error) {
	t, err := makeTemporary(os.TempDir(), pattern)
	if err != nil {
		err = fmt.Errorf("make a temporary folder: %w; set TMPDIR to a folder that user %d may write to",
			err, os.Getuid())
	}
	return t, err
}

// temporaryFolder returns the folder to which DuckDB spills data that does not fit into memory, and in
// which temporary tables are built.
func temporaryFolder(config *job.Config) string { return filepath.Join(stateFolder(config), "tmp") }

// removeLeft removes what killed processes have left in a folder.
func removeLeft(folder string) error {
	names, err := durable.Match(folder, "*")
	for _, name := range names {
		err = errors.Join(err, removeUnlocked(name))
	}
	return err
}

// removeUnlocked removes a file or folder unless a process has locked it.
func removeUnlocked(name string) error {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = nil
	case err == nil:
		err = os.RemoveAll(name)
	}
	return errors.Join(err, file.Close())
}
