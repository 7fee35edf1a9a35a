package bucket

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"outlierd/sinks/parquet"
)

// manifest is what a bucket has, as readers see it.
type manifest struct {
	Version   int    `json:"version"`
	Owner     string `json:"owner"`     // the data folder that writes here
	Commit    int64  `json:"commit"`    // counts up
	Instance  string `json:"instance"`  // of the folder of Parquet files, and in each file
	Watermark int64  `json:"watermark"` // journal id
	Copied    string `json:"copied_at"`

	Tables map[string][]object `json:"tables"`

	Superseded []superseded `json:"superseded"` // objects of earlier manifests that are still there
}

// object is a file of a table in the bucket.
type object struct {
	Name   string `json:"name"` // below the prefix
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Lo     int64  `json:"lo"` // as in [parquet.File]
	Hi     int64  `json:"hi"`

	file string // its name in the folder, below the table's
}

// superseded is an object that manifests name no longer.
type superseded struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
}

const (
	manifestVersion = 1
	manifestName    = "_manifest/latest.json"
)

// objectName matches what this package writes, and deletes. Other objects are never touched.
var objectName = regexp.MustCompile(
	`^[a-z_]+/(date=\d{4}-\d{2}-\d{2}/)?(part-\d{12,}-\d{12,}|current|open)-[0-9a-f]{16}\.parquet$`)

// nameOf is the name of a file's object.
func nameOf(table string, f parquet.File) string {
	return path.Join(table, strings.TrimSuffix(f.Name, ".parquet")+"-"+f.SHA256[:16]+".parquet")
}

// objectsOf are the objects of a folder's files.
func objectsOf(folder *parquet.Published) map[string][]object {
	tables := map[string][]object{}
	for table, files := range folder.Tables {
		for _, f := range files {
			tables[table] = append(tables[table],
				object{nameOf(table, f), f.Rows, f.Bytes, f.SHA256, f.Lo, f.Hi, path.Join(table, f.Name)})
		}
	}
	return tables
}

func parseManifest(text []byte) (m manifest, err error) {
	if err = json.Unmarshal(text, &m); err == nil && m.Version != manifestVersion {
		err = fmt.Errorf("is of version %d, this program knows %d: use a newer program", m.Version, manifestVersion)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", manifestName, err)
	}
	return m, nil
}

// names are the objects that a manifest names for readers, by name.
func (m *manifest) names() map[string]object {
	all := map[string]object{}
	for _, table := range slices.Sorted(maps.Keys(m.Tables)) {
		for _, o := range m.Tables[table] {
			all[o.Name] = o
		}
	}
	return all
}
