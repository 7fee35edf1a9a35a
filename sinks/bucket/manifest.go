package bucket

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"outlierd/lazyregexp"
	"outlierd/sinks/parquet"
)

// manifest is the content of _manifest/latest.json: the objects that readers should read.
type manifest struct {
	Version   int    `json:"version"`
	Owner     string `json:"owner"`     // id of the data folder that writes to the bucket
	Commit    int64  `json:"commit"`    // number of the commit, ascending
	Instance  string `json:"instance"`  // of the Parquet folder; also in each file
	Watermark int64  `json:"watermark"` // id of the last answer
	Copied    string `json:"copied_at"` // RFC 3339

	Tables map[string][]object `json:"tables"`

	Superseded []superseded `json:"superseded"` // objects of earlier manifests that are kept
}

// object is a file of a table in the bucket.
type object struct {
	Name   string `json:"name"` // below the prefix
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Lo     int64  `json:"lo"` // see [parquet.File]
	Hi     int64  `json:"hi"`

	file string // path in the Parquet folder, with slashes
}

// superseded is an object that was removed from the manifest at the time Since.
type superseded struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
}

const (
	manifestVersion = 1
	manifestName    = "_manifest/latest.json"
)

// objectName matches the objects that this package writes and deletes. It never touches others.
var objectName = lazyregexp.New(
	`^[a-z_]+/(date=\d{4}-\d{2}-\d{2}/)?(part-\d{12,}-\d{12,}|current|open)-[0-9a-f]{16}\.parquet$`)

// nameOf returns the name of the object for a file.
func nameOf(table string, f parquet.File) string {
	return path.Join(table, strings.TrimSuffix(f.Name, ".parquet")+"-"+f.SHA256[:16]+".parquet")
}

// objectsOf returns the objects for the files of a folder, by table.
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
		err = fmt.Errorf("it has version %d, and this outlierd reads version %d: use a newer outlierd",
			m.Version, manifestVersion)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", manifestName, err)
	}
	return m, nil
}

// names returns the objects of all tables, by name.
func (m *manifest) names() map[string]object {
	all := map[string]object{}
	for _, table := range slices.Sorted(maps.Keys(m.Tables)) {
		for _, o := range m.Tables[table] {
			all[o.Name] = o
		}
	}
	return all
}
