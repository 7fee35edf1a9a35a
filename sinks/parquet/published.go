package parquet

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Published has the files of a folder that readers find.
type Published struct {
	Instance   string
	Watermark  int64
	OpsVersion int64
	Tables     map[string][]File // by the table's folder, in the order of their names
}

// ReadPublished reads the manifest of a folder and returns the files that readers find. It omits files
// with unpublished rows.
func ReadPublished(dir string) (*Published, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := &Sink{options: Options{Dir: dir}, root: root}
	text, err := s.manifestText()
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err == nil && m.Version != manifestVersion {
		err = fmt.Errorf("is of version %d, this program writes %d", m.Version, manifestVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, manifestName), err)
	}
	all, err := s.listed(m)
	if err != nil {
		return nil, err
	}
	p := &Published{Instance: m.Instance, Watermark: m.Watermark, OpsVersion: m.OpsVersion, Tables: map[string][]File{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if table, _, _ := strings.Cut(name, "/"); !isPending(path.Base(name)) {
			p.Tables[table] = append(p.Tables[table], all[name])
		}
	}
	return p, nil
}

// IsFolder reports whether a folder belongs to a sink.
func IsFolder(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, manifestName))
	return err == nil
}
