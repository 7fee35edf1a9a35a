package thumbnails

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Folder has the cache, in the data folder.
const Folder = "cache/thumbnails"

const (
	missingFor = 24 * time.Hour // how long a picture that does not exist is not asked for again
	usedEvery  = time.Hour      // how exactly the time of the last use is known
	block      = 4096           // bytes that files occupy a multiple of
)

// A cache keeps pictures in files: the time of a file is that of its last use. An empty file stands for
// a picture that does not exist. Several processes may use one folder.
type cache struct {
	data string // the data folder
	max  int64

	mu   sync.Mutex
	size int64 // of all files; 0 before the first one is written
}

// nameOf returns the name of a file. It begins with the video, so that [Forget] finds all pictures of
// one, and has hashes only, because ids and addresses come from elsewhere.
func nameOf(video, address string) string {
	sum := sha256.Sum256([]byte(address))
	return prefixOf(video) + hex.EncodeToString(sum[:])
}

func prefixOf(video string) string {
	sum := sha256.Sum256([]byte(video))
	return hex.EncodeToString(sum[:12]) + "-"
}

// openFolder opens the folder, and creates it if asked to. It may not be a link, which could lead to the state.
// Links in it that lead elsewhere are refused by [os.Root].
func (c *cache) openFolder(create bool) (*os.Root, error) {
	data, err := os.OpenRoot(c.data)
	if err != nil {
		return nil, err
	}
	defer data.Close()
	if create {
		if err := data.MkdirAll(Folder, 0o700); err != nil {
			return nil, err
		}
	}
	for _, path := range []string{filepath.Dir(Folder), Folder} {
		if info, err := data.Lstat(path); err != nil {
			return nil, err
		} else if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a folder: remove it", filepath.Join(c.data, path))
		}
	}
	return data.OpenRoot(Folder)
}

// readPicture returns a picture, nil if it is not kept, or [ErrNone]. What cannot be read is fetched again.
func (c *cache) readPicture(name string) (*Picture, error) {
	root, err := c.openFolder(false)
	if err != nil {
		return nil, nil
	}
	defer root.Close()
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would wait
	if err != nil {
		return nil, nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	age := time.Since(info.ModTime())
	if info.Size() == 0 {
		return nil, map[bool]error{true: ErrNone}[age < missingFor]
	}
	data, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, nil
	}
	picture, err := checkPicture(data)
	if err != nil {
		return nil, nil // somebody else has written it
	}
	if age > usedEvery {
		_ = root.Chtimes(name, time.Now(), time.Now()) // it is only removed a little earlier
	}
	return picture, nil
}

// writePicture stores a picture, or with nil that the host has no picture. If the cache is full, it removes the pictures
// that were not used for longest.
func (c *cache) writePicture(name string, picture *Picture) error {
	var content []byte
	if picture != nil {
		content = picture.Data
	}
	root, err := c.openFolder(true)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := replaceFile(root, name, content); err != nil {
		return fmt.Errorf("write to %s: %w", Folder, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size > 0 {
		c.size += occupiedBytes(int64(len(content)))
	}
	if c.size == 0 || c.size > c.max {
		return c.trimCache(root)
	}
	return nil
}

// replaceFile writes a file under another name first, so that a reader never sees a part of it.
func replaceFile(root *os.Root, name string, content []byte) error {
	temporary := name + "." + rand.Text()
	file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = root.Chtimes(temporary, time.Now(), time.Now())
	}
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temporary))
	}
	return nil
}

func occupiedBytes(bytes int64) int64 { return max(1, (bytes+block-1)/block) * block }

// trimCache measures the files and, if they are too large, removes the least recently used ones until a
// tenth of the cache is free.
func (c *cache) trimCache(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	c.size = 0
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue // another process has removed it
		}
		files = append(files, info)
		c.size += occupiedBytes(info.Size())
	}
	if c.size <= c.max {
		return nil
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, file := range files {
		if c.size <= c.max/10*9 {
			break
		}
		if err := root.Remove(file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.size -= occupiedBytes(file.Size())
	}
	return nil
}

// Forget removes all pictures of videos from the cache in a data folder.
func Forget(data string, videos []string) error {
	root, err := (&cache{data: data}).openFolder(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", filepath.Join(data, Folder), err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	forgotten := map[string]bool{}
	for _, video := range videos {
		forgotten[prefixOf(video)] = true
	}
	for _, entry := range entries {
		if prefix, _, _ := strings.Cut(entry.Name(), "-"); forgotten[prefix+"-"] {
			err = errors.Join(err, root.Remove(entry.Name()))
		}
	}
	return err
}
