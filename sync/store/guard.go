package store

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A state folder is for its owner alone, and what is opened in it is created and truncated
// without a question. A link that another user planted there, before the folder was closed to
// others, would let the program write over files elsewhere.

// guardFolder refuses a state folder that is a link of another user's. One's own may lead
// to another disk.
func guardFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil // what else is wrong with it shows when it is opened
	}
	if owner := ownerOf(info); owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("open the state folder %s: it is a symbolic link (owner: user %d): remove it, or make it your own", dir, owner)
	}
	return nil
}

// guard refuses a state folder that holds anything but files, folders and sockets.
func guard(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into the state folder: %w", err)
	}
	for _, entry := range entries {
		what := ""
		switch kind := entry.Type(); {
		case kind.IsRegular(), kind.IsDir(), kind&fs.ModeSocket != 0:
			continue
		case kind&fs.ModeSymlink != 0:
			what = "a symbolic link"
		default:
			what = "not a regular file"
		}
		path := filepath.Join(dir, entry.Name())
		if info, err := entry.Info(); err == nil {
			what += fmt.Sprintf(" (owner: user %d)", ownerOf(info))
		}
		return fmt.Errorf("open the state folder: %s is %s; only regular files are allowed there: "+
			"remove it, or put the file itself in its place", path, what)
	}
	return nil
}

// ownerOf is the user that a file belongs to; -1 where the system does not say.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
