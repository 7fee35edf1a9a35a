package parquet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"outlierd/internal/lazyregexp"
	"outlierd/sinks"
)

// Manifest says what a folder or a bucket holds. It is the authority: files that it does not list are not
// part of the copy.
type Manifest struct {
	Version   int    `json:"version"`
	Warehouse string `json:"warehouse"` // see [sinks.Marks]
	Answers   int64  `json:"answers"`
	Ops       int64  `json:"ops"`

	Omitted json.RawMessage `json:"omitted,omitempty"` // what is left out, see [sinks.Omitted]

	Forms  map[string]string `json:"forms"`  // by the table's folder: digest of the columns and settings of its files
	Tables map[string][]File `json:"tables"` // by the table's folder; in the order of their names
}

// File is a part of a table.
type File struct {
	Name   string `json:"name"` // path below the folder or the prefix
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`

	Lo int64 `json:"lo"` // first placing number that the part may hold, see [schema.Table.Placing]
	Hi int64 `json:"hi"` // highest placing number in it
}

// ManifestVersion is the version of the manifests that this package writes.
const ManifestVersion = 3

// ManifestName is the manifest's path below the folder or the prefix.
const ManifestName = manifestFolder + "/latest.json"

const (
	manifestFolder = "_manifest"
	nextName       = manifestFolder + "/next.json" // the manifest of a publication whose files are being renamed
)

// Marks returns what the manifest says about the whole copy.
func (m *Manifest) Marks() sinks.Marks {
	return sinks.Marks{Warehouse: m.Warehouse, Answers: m.Answers, Ops: m.Ops, Omitted: string(m.Omitted)}
}

// All returns the files of all tables by name.
func (m *Manifest) All() map[string]File {
	all := map[string]File{}
	for _, files := range m.Tables {
		for _, f := range files {
			all[f.Name] = f
		}
	}
	return all
}

var (
	errDamaged = errors.New("damaged") // the manifest, which cannot be read

	// ErrOtherVersion is the error of a folder whose files this program must not write beside.
	ErrOtherVersion = errors.New("of another version")
)

// parseManifest returns an error for a manifest of another version, and for one that is damaged.
func parseManifest(text []byte) (m Manifest, err error) {
	var of struct{ Version int }
	if err := json.Unmarshal(text, &of); err == nil && of.Version != ManifestVersion {
		return m, fmt.Errorf("is %w (%d, and this program writes %d): remove this folder with everything in it, "+
			"and the next run makes it again", ErrOtherVersion, of.Version, ManifestVersion)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("is %w (%v): the next run writes it again", errDamaged, err)
	}
	for name := range m.All() {
		if !partName().MatchString(name) {
			return m, fmt.Errorf("is %w (%q is not the name of a part): the next run writes it again", errDamaged, name)
		}
	}
	return m, nil
}

// readManifest reads a manifest. It returns the zero value if there is none.
func (f *folder) readManifest(name string) (m Manifest, err error) {
	text, err := f.readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return m, err
	}
	if m, err = parseManifest(text); err != nil {
		return Manifest{}, fmt.Errorf("%s: %s %w", f.dir, name, err)
	}
	return m, nil
}

// partName matches the paths of parts.
var partName = lazyregexp.New(`^[a-z_]+/(date=\d{4}-\d{2}-\d{2}/)?part-\d{12,}\.parquet$`)

// temporary returns the name of a part, or of the manifest, until it is published. A glob for **/*.parquet
// matches hidden files, and readers of a whole folder read all others.
func temporary(name string) string {
	folder, base := path.Split(name)
	return folder + "." + base + ".tmp"
}

// temporaryName matches the paths of parts that are not published.
var temporaryName = lazyregexp.New(`^[a-z_]+/(date=\d{4}-\d{2}-\d{2}/)?\.part-\d{12,}\.parquet\.tmp$`)

func nameOf(folder string, lo int64) string {
	return path.Join(folder, fmt.Sprintf("part-%012d.parquet", lo))
}

// loOf returns the number in the name of a part.
func loOf(name string) (lo int64) {
	_, _ = fmt.Sscanf(path.Base(name), "part-%d.parquet", &lo)
	return lo
}

// commitParts publishes the parts that were staged, and removes those that next does not list: all or nothing of it, as
// after a kill, [Copy.recoverPublication] does the rest.
func (c *Copy) commitParts(next Manifest, staged, dropped []string) error {
	if err := c.syncFoldersOf(staged); err != nil {
		return err
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := c.makeFolder(manifestFolder); err != nil {
		return err
	}
	unfinished := temporary(nextName)
	f, err := c.createFile(unfinished)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, c.syncFile(unfinished, f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", unfinished, err)
	}
	if err := c.renameFile(unfinished, nextName); err != nil {
		return err
	}
	if err := c.syncFolder(manifestFolder); err != nil { // the publication is committed
		return err
	}
	return c.finishPublication(staged, dropped)
}

// recoverPublication finishes a publication that was interrupted after its commit. If a manifest is damaged, all parts
// are written again. Until then readers find the old ones.
func (c *Copy) recoverPublication() error {
	next, err := c.readManifest(nextName)
	if err == nil && next.Version != 0 {
		return c.finishPublication(slices.Sorted(maps.Keys(next.All())), nil) // an inspection follows, which removes parts
	}
	if err == nil {
		_, err = c.readManifest(ManifestName)
	}
	if errors.Is(err, errDamaged) {
		err = errors.Join(c.removeFile(nextName), c.removeFile(ManifestName))
	}
	return err
}

// finishPublication gives the parts of the committed publication their names, removes others, and then names the
// manifest.
func (c *Copy) finishPublication(names, dropped []string) error {
	var renamed []string
	for _, name := range names {
		err := c.renameFile(temporary(name), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has its name, or did not change
		}
		if err != nil {
			return err
		}
		renamed = append(renamed, name)
	}
	if err := c.syncFoldersOf(renamed); err != nil {
		return err
	}
	for _, name := range dropped {
		if err := c.removePart(name); err != nil {
			return err
		}
	}
	if err := c.renameFile(nextName, ManifestName); err != nil {
		return err
	}
	return c.syncFolder(manifestFolder)
}
