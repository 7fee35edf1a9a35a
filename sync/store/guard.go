package store

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A state folder belongs to its owner alone, and files in it are created and truncated without
// asking. A link that another user placed there, before the folder was closed to others, would
// make the program overwrite files elsewhere.

// guardFolder refuses a state folder that is a symbolic link of another user. The user's own link
// may lead to another disk.
func guardFolder(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil // any other fault shows when it is opened
	}
	if owner := ownerOf(info); owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("open the state folder %s: it is a symbolic link (owner: user %d): remove it, "+
			"or make it your own", dir, owner)
	}
	return nil
}

// refuseForeignFiles refuses a state folder that contains anything but files, folders and sockets.
func refuseForeignFiles(dir string) error {
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

// ownerOf returns the id of the user that a file belongs to; -1 if the system does not say.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
