package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func lockPath(dir string) string { return filepath.Join(dir, "lock") }

// lockFolder locks the folder for this process and records who holds it. The kernel releases the lock
// when the process ends, however it ends. It returns the signature of the process that held the folder before.
func lockFolder(dir string, take func(*os.File) error) (file *os.File, before signature, err error) {
	file, err = os.OpenFile(lockPath(dir), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, before, fmt.Errorf("lock the state folder as user %d: %w", os.Getuid(), err)
	}
	err = take(file)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, before, errors.Join(findHolder(dir, file), file.Close())
	}
	if isLockless(err) { // two processes could use the same state, and spend the same credits
		return nil, before, errors.Join(fmt.Errorf("lock the state folder %s: %w; its file system has no locks, "+
			"as some network file systems: put the data folder on a local disk", dir, err), file.Close())
	}
	if err == nil {
		before, err = readSignature(file)
	}
	if err == nil {
		err = signFile(file, before.Boot)
	}
	if err != nil {
		return nil, before, errors.Join(fmt.Errorf("lock the state folder %s: %w", dir, err), file.Close())
	}
	return file, before, nil
}

// lockTries and lockTryPause say how often to try a lock that is held, and how long to wait in
// between: a reader may hold it for a moment; see [heldBy]. Who holds it is looked up as often.
const (
	lockTries    = 5
	lockTryPause = 20 * time.Millisecond
)

// lockFile locks a file, without waiting for another process that holds it for long.
func lockFile(file *os.File) (err error) {
	for try := range lockTries {
		if try > 0 {
			time.Sleep(lockTryPause)
		}
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
	}
	return err
}

// takeLock locks a file for this process, and checks that a byte range of it can be locked as
// well, as SQLite does with its own file: some network file systems support neither, some only
// one. Without this check, SQLite would wait for a lock that no process holds.
func takeLock(file *os.File) error {
	if err := lockFile(file); err != nil {
		return err
	}
	record := unix.Flock_t{Type: unix.F_WRLCK, Len: 1}
	if err := unix.FcntlFlock(file.Fd(), unix.F_SETLK, &record); err != nil {
		return err
	}
	record.Type = unix.F_UNLCK
	return unix.FcntlFlock(file.Fd(), unix.F_SETLK, &record)
}

// unlockFile releases the lock and closes the file. Closing it would not be enough while a child that this
// process has forked, for a command of a notification, has not executed its program yet: it has the
// file as well, and with it the lock.
func unlockFile(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

// isLockless reports whether an error means that the file system does not support locks.
func isLockless(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOLCK, unix.ENOTSUP, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL},
		func(e error) bool { return errors.Is(err, e) })
}

// heldBy returns the process that holds the folder, nil if none does. It holds the lock itself for
// a moment, shared with other readers.
func heldBy(dir string) (held *HeldError, err error) {
	file, err := os.Open(lockPath(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find out who holds the state folder: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		held, err = findHolder(dir, file), nil
	}
	return held, errors.Join(err, unlockFile(file))
}

// signature is what the lock file says of the process that holds the folder, or has held it last.
type signature struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"` // "" once it does not hold the folder any more
	Since   time.Time `json:"since"`

	// Boot is the id of the machine's boot during which the file of the state was last known to be sound, or mustCheck.
	// It need not be synced: whatever a power failure leaves of it is not the id of the next boot.
	Boot string `json:"boot"`
}

// mustCheck replaces the boot id after SQLite has reported damage.
const mustCheck = "check"

// readSignature reads what [signFile] wrote, if it has written anything.
func readSignature(file *os.File) (s signature, err error) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<20))
	if json.Unmarshal(text, &s) != nil {
		s = signature{}
	}
	return s, err
}

func writeSignature(file *os.File, s signature) error {
	text, err := json.Marshal(s)
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(text, 0)
	}
	return err
}

// signFile records that this process holds the folder.
func signFile(file *os.File, boot string) error {
	command := strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " ")
	return writeSignature(file, signature{os.Getpid(), strings.ReplaceAll(command, "\n", " "),
		time.Now().UTC().Truncate(time.Second), boot})
}

// unsignFile removes the command from the lock file before the lock is released, because the arguments
// may contain something that must be forgotten.
func unsignFile(file *os.File) error {
	s, err := readSignature(file)
	if s.Command = ""; err != nil || s.PID == 0 {
		return err
	}
	return writeSignature(file, s)
}

// bootID identifies the machine's present boot; "" if the system does not say.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// findHolder returns who holds the folder dir. It waits for a moment for a holder that has just taken the lock, or is
// signing again.
func findHolder(dir string, file *os.File) *HeldError {
	var s signature
	for try := range lockTries {
		if try > 0 {
			time.Sleep(lockTryPause)
		}
		if s, _ = readSignature(file); s.Command != "" { // else it is not known who holds it
			break
		}
	}
	return &HeldError{Dir: dir, PID: s.PID, Command: s.Command, Since: s.Since}
}
