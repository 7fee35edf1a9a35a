package bucket

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"outlierd/internal/lazyregexp"
	"outlierd/sinks/parquet"
)

// manifest is the content of _manifest/latest.json: what readers should read, in the folder's format. The
// names of its files are those of objects.
type manifest struct {
	parquet.Manifest

	Owner      string       `json:"owner"`      // id of the data folder that writes to the bucket
	Commit     int64        `json:"commit"`     // number of the commit, ascending
	Copied     string       `json:"copied_at"`  // RFC 3339
	Superseded []superseded `json:"superseded"` // objects of earlier manifests that are kept
}

// superseded is an object that was removed from the manifest at the time Since.
type superseded struct {
	Name  string    `json:"name"`
	Since time.Time `json:"since"`
}

// objectName matches the objects that this package writes and deletes. It never touches others.
var objectName = lazyregexp.New(`^[a-z_]+/(date=\d{4}-\d{2}-\d{2}/)?part-\d{12,}-[0-9a-f]{16}\.parquet$`)

// nameOf returns the name of the object for a file.
func nameOf(f parquet.File) string {
	return strings.TrimSuffix(f.Name, ".parquet") + "-" + f.SHA256[:16] + ".parquet"
}

// fileOf returns the path in the folder of the file that was uploaded as an object.
func fileOf(object string) string { return object[:strings.LastIndexByte(object, '-')] + ".parquet" }

// inBucket returns the manifest of a folder with the names of the objects.
func inBucket(folder parquet.Manifest) parquet.Manifest {
	tables := map[string][]parquet.File{}
	for table, files := range folder.Tables {
		for _, f := range files {
			f.Name = nameOf(f)
			tables[table] = append(tables[table], f)
		}
	}
	folder.Tables = tables
	return folder
}

func parseManifest(text []byte) (m manifest, err error) {
	if err = json.Unmarshal(text, &m); err != nil {
		err = fmt.Errorf("it is damaged (%w): delete it, and it is written again", err)
	} else if m.Version != parquet.ManifestVersion {
		err = fmt.Errorf("it has version %d, and this outlierd reads version %d: use another prefix, or delete it",
			m.Version, parquet.ManifestVersion)
	}
	if err != nil {
		return m, fmt.Errorf("%s: %w", parquet.ManifestName, err)
	}
	return m, nil
}

// sameObjects reports whether two manifests have the same objects and marks. Comparing names suffices, because
// they contain checksums.
func sameObjects(a, b parquet.Manifest) bool {
	sameName := func(a, b parquet.File) bool { return a.Name == b.Name }
	return a.Version == b.Version && a.Marks() == b.Marks() && maps.EqualFunc(a.All(), b.All(), sameName)
}
