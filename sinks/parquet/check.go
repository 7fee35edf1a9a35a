package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"outlierd/internal/durable"
	"outlierd/schema"
	"outlierd/sinks"
)

// Folder is a snapshot of a folder of tables.
type Folder struct {
	sinks.Marks

	Problems []string // parts that differ from the manifest

	// Foreign has the Parquet files of other programs in the folders of tables, relative to the copy's folder.
	// Readers that use a glob find their rows among those of the table.
	Foreign []string

	manifest Manifest
	paths    map[string]string // by the name in the manifest
}

// Paths returns the files of a table.
func (f *Folder) Paths(t *schema.Table) (paths []string) {
	for _, file := range f.manifest.Tables[t.FileName()] {
		if path, ok := f.paths[file.Name]; ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// looks is the number of attempts to read a folder that changes meanwhile.
const looks = 20

// Look reads the manifest of a folder and finds the files that it lists, even while another process
// publishes there. It does not change the folder. If keep is set and on the same disk, the files are
// hard-linked into that empty folder, where they do not change.
func Look(ctx context.Context, dir, keep string, tables []*schema.Table) (*Folder, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	defer root.root.Close()
	for range looks {
		before, err := root.readState()
		if err != nil {
			return nil, err
		}
		f, err := root.findFiles(before, keep, tables)
		after, again := root.readState()
		if err := errors.Join(err, again); err != nil {
			return nil, err
		}
		if before == after {
			return f, nil
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s changes faster than it can be read: try again", dir)
}

// state is the manifest of the last publication that was committed.
type state struct {
	text     string
	renaming bool // its parts may still have their temporary names
}

func (f *folder) readState() (s state, err error) {
	text, err := f.readFile(nextName)
	if s.renaming = err == nil; errors.Is(err, fs.ErrNotExist) {
		text, err = f.readFile(ManifestName)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s has no %s: the next run writes it again", f.dir, ManifestName)
	}
	s.text = string(text)
	return s, err
}

// findFiles finds the files of a state.
func (f *folder) findFiles(s state, keep string, tables []*schema.Table) (*Folder, error) {
	m, err := parseManifest([]byte(s.text))
	if err != nil {
		return nil, fmt.Errorf("%s: %s %w", f.dir, ManifestName, err)
	}
	found := &Folder{Marks: m.Marks(), manifest: m, paths: map[string]string{}}
	if keep != "" {
		if err := os.RemoveAll(keep); err != nil { // of an earlier look
			return nil, err
		}
	}
	all := m.All()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		place, problem := f.placeOf(s, all[name])
		if problem != "" {
			found.Problems = append(found.Problems, problem)
		}
		if place == "" {
			continue
		}
		if found.paths[name], err = durable.Keep(filepath.Join(f.dir, place), keep, name); ignoreMissing(err) != nil {
			return nil, err
		}
	}
	entries, err := f.listFiles(tables)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, listed := all[e.name]; !listed && !s.renaming && partName().MatchString(e.name) {
			found.Problems = append(found.Problems, e.name+" is not of this copy: readers find its rows beside the others")
		}
	}
	found.Foreign = foreignFiles(entries)
	return found, nil
}

// placeOf returns where a file is, or "", and what is wrong with it, or "".
func (f *folder) placeOf(s state, file File) (place, problem string) {
	place = temporary(file.Name)
	info, err := f.root.Lstat(place)
	if !s.renaming || err != nil {
		place = file.Name
		info, err = f.root.Lstat(place)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", file.Name + " is missing"
	case err != nil:
		return "", f.nameFull(err).Error()
	case !info.Mode().IsRegular():
		return "", file.Name + " is not a regular file"
	case info.Size() != file.Bytes:
		return place, fmt.Sprintf("%s has %d bytes in place of %d", file.Name, info.Size(), file.Bytes)
	}
	return place, ""
}

// Verify reads the files and returns those whose content has changed since they were written.
func (f *Folder) Verify(ctx context.Context) (problems []string, err error) {
	all := f.manifest.All()
	for _, name := range slices.Sorted(maps.Keys(f.paths)) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if err := VerifyFile(f.paths[name], name, all[name].SHA256); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems, nil
}

// VerifyFile returns an error if the local file at path does not have the SHA-256 of the manifest, in hex. The error
// has the name, since path may be a link.
func VerifyFile(path, name, want string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	sum, _, err := checksum(file)
	if err == nil && sum != want {
		err = fmt.Errorf("%s is damaged (it does not have the checksum of the manifest): remove it, and it is written again", name)
	}
	return err
}

// Foreign returns the Parquet files of other programs in the folders of tables, relative to dir.
func Foreign(dir string, tables []*schema.Table) ([]string, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer f.root.Close()
	all, err := f.listFiles(tables)
	return foreignFiles(all), err
}

// ReadPublished reads the manifest of a folder. The error is [fs.ErrNotExist] if it has none.
func ReadPublished(dir string) (Manifest, error) {
	f, err := openFolder(dir)
	if err != nil {
		return Manifest{}, err
	}
	defer f.root.Close()
	m, err := f.readManifest(ManifestName)
	if err == nil && m.Version == 0 {
		err = &fs.PathError{Op: "read", Path: filepath.Join(dir, ManifestName), Err: fs.ErrNotExist}
	}
	return m, err
}

// IsFolder reports whether a folder has a copy.
func IsFolder(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ManifestName))
	return err == nil
}
