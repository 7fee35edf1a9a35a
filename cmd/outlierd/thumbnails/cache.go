package thumbnails

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"outlierd/internal/durable"
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

// findFolder returns the path of the folder. It may not be a link, which could lead to the state.
func findFolder(data string) (string, error) {
	path := data
	for _, name := range strings.Split(Folder, "/") {
		path = filepath.Join(path, name)
		if info, err := os.Lstat(path); err != nil {
			return "", err
		} else if !info.IsDir() {
			return "", fmt.Errorf("%s is not a folder: remove it", path)
		}
	}
	return path, nil
}

// readPicture returns a picture, nil if it is not kept, or [ErrNone]. What cannot be read is fetched again.
func (c *cache) readPicture(name string) (*Picture, error) {
	folder, err := findFolder(c.data)
	if err != nil {
		return nil, nil
	}
	path := filepath.Join(folder, name)
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil, nil
	}
	age := time.Since(info.ModTime())
	if info.Size() == 0 {
		return nil, map[bool]error{true: ErrNone}[age < missingFor]
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil
	}
	picture, err := checkPicture(data)
	if err != nil {
		return nil, nil // somebody else has written it
	}
	if age > usedEvery {
		_ = os.Chtimes(path, time.Now(), time.Now()) // it is only removed a little earlier
	}
	return picture, nil
}

// writePicture stores a picture, or with nil that the host has no picture. If the cache is full, it removes the
// pictures that were not used for longest.
func (c *cache) writePicture(name string, picture *Picture) error {
	var content []byte
	if picture != nil {
		content = picture.Data
	}
	if err := os.MkdirAll(filepath.Join(c.data, Folder), 0o700); err != nil {
		return err
	}
	folder, err := findFolder(c.data)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, name)
	if err := durable.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write to %s: %w", Folder, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size > 0 {
		c.size += occupiedBytes(int64(len(content)))
	}
	if err := os.Chtimes(path, time.Now(), time.Now()); err != nil || c.size > 0 && c.size <= c.max {
		return err
	}
	return c.trimCache(folder)
}

func occupiedBytes(bytes int64) int64 { return max(1, (bytes+block-1)/block) * block }

// trimCache measures the files and, if they are too large, removes the least recently used ones until a
// tenth of the cache is free.
func (c *cache) trimCache(folder string) error {
	entries, err := os.ReadDir(folder)
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
		if err := os.Remove(filepath.Join(folder, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		c.size -= occupiedBytes(file.Size())
	}
	return nil
}

// Forget removes all pictures of videos from the cache in a data folder.
func Forget(data string, videos []string) error {
	folder, err := findFolder(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	forgotten := map[string]bool{}
	for _, video := range videos {
		forgotten[prefixOf(video)] = true
	}
	for _, entry := range entries {
		// A process that was killed while it wrote has left a hidden file.
		if prefix, _, _ := strings.Cut(strings.TrimPrefix(entry.Name(), "."), "-"); forgotten[prefix+"-"] {
			err = errors.Join(err, os.Remove(filepath.Join(folder, entry.Name())))
		}
	}
	return err
}
