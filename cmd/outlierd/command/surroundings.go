package command

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"outlierd/cmd/outlierd/report"
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
