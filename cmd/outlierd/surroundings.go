package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"outlierd/sync/job"
)

// # What a machine or container may lack
//
// A container is often the first place where the program meets another user's volume, a root
// file system that is read-only, a disk without room, or no certificates. Each shows at the
// start, in one message that names the remedy. Time zones are part of the program.

// writable adds the remedy to what keeps the program from writing to the data folder. Other
// errors stay as they are.
func writable(err error, folder string) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; user %d needs write access to %s and everything in it", err, os.Getuid(), folder)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w; mount %s so that user %d may write to it, or set OUTLIERD_DATA to a folder elsewhere",
			err, folder, os.Getuid())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; free some space on the disk of %s, nothing that was kept is lost", err, folder)
	}
	return err
}

// trusting refuses a service whose certificate could not be verified, since this system knows no
// authority. Every call would fail, each with the certificate's name for it.
func trusting(service job.Service) error {
	if service.CAFile != "" || !strings.HasPrefix(service.URL, "https:") {
		return nil
	}
	system, err := x509.SystemCertPool()
	if err == nil && !system.Equal(x509.NewCertPool()) {
		return nil
	}
	return fmt.Errorf("verify the certificate of %s: this system has no CA certificates; "+
		"install them (Debian's package ca-certificates), mount them at /etc/ssl/certs, or name a file in service.ca_file", service.URL)
}

// warnOfSpace logs at the start that nothing can be bought, rather than when a job is due.
func (p *program) warnOfSpace() {
	if err := p.Engine.Store.DB.Room(); err != nil {
		p.Engine.Log.Warn("nothing is bought until there is room", "err", err)
	}
}
