package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lock takes the folder for this process and writes down who holds it. The kernel
// lets go when the process ends, however it ends.
func lock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder as user %d: %w", os.Getuid(), err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		held := holder(file)
		held.Dir = dir
		return nil, errors.Join(held, file.Close())
	}
	if err == nil {
		err = sign(file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the state folder %s: %w", dir, err), file.Close())
	}
	return file, nil
}

// sign writes down who holds the folder: process, command and since when, a line each.
func sign(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	command := strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " ")
	command = strings.ReplaceAll(command, "\n", " ")
	_, err := fmt.Fprintf(file, "%d\n%s\n%s\n", os.Getpid(), command, time.Now().UTC().Format(time.RFC3339))
	return err
}

// holder reads what sign wrote. A holder that has just taken the lock may not have
// signed yet, and is then unknown.
func holder(file *os.File) *HeldError {
	text, err := io.ReadAll(io.LimitReader(file, 4096))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < 3 {
		return &HeldError{}
	}
	pid, err := strconv.Atoi(lines[0])
	if err != nil {
		return &HeldError{}
	}
	since, err := time.Parse(time.RFC3339, lines[2])
	if err != nil {
		return &HeldError{}
	}
	return &HeldError{PID: pid, Command: lines[1], Since: since}
}
