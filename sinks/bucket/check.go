package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"outlierd/sinks/parquet"
)

// Report is the result of [Bucket.Check].
type Report struct {
	Address  string   `json:"address"`
	Answers  int64    `json:"answers"`   // id of the last answer in the bucket
	Objects  int      `json:"objects"`   // number of objects in the manifest
	Copied   string   `json:"copied_at"` // RFC 3339; "" if nothing was copied yet
	Behind   bool     `json:"behind"`    // whether the folder has changed since
	ReadData bool     `json:"read_data"` // whether the content of all objects was compared with their checksums
	Problems []string `json:"problems"`
}

// Check checks that the bucket has all objects of its manifest, with the right sizes. With readData it
// also downloads them and compares their checksums. It changes nothing.
func (b *Bucket) Check(ctx context.Context, readData bool) (Report, error) {
	r, err := b.checkObjects(ctx, readData)
	if err != nil {
		err = fmt.Errorf("check %s: %w", b.options.Address, err)
	}
	return r, err
}

func (b *Bucket) checkObjects(ctx context.Context, readData bool) (Report, error) {
	r := Report{Address: b.options.Address, ReadData: readData, Problems: []string{}}
	found, err := b.readRemote(ctx)
	if err != nil {
		return r, err
	}
	folder, err := parquet.ReadPublished(b.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else nothing is published yet
		return r, err
	}
	named := found.root.All()
	r.Answers, r.Objects, r.Copied = found.root.Answers, len(named), found.root.Copied
	r.Behind = !sameObjects(found.root.Manifest, inBucket(folder))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		problem, err := found.findProblem(ctx, named[name], readData)
		if err != nil {
			return r, err
		}
		if problem != "" {
			r.Problems = append(r.Problems, problem)
		}
	}
	return r, nil
}

// findProblem describes what is wrong with an object; "" if it is intact.
func (r *remote) findProblem(ctx context.Context, o parquet.File, readData bool) (string, error) {
	size, there := r.sizes[o.Name]
	switch {
	case !there, size == incompleteSize:
		return o.Name + " is missing", nil
	case size != o.Bytes:
		return fmt.Sprintf("%s has %d bytes instead of %d", o.Name, size, o.Bytes), nil
	case !readData:
		return "", nil
	}
	from, _, err := r.files.Open(ctx, o.Name)
	if err != nil {
		return "", err
	}
	defer from.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, from); err != nil {
		return "", err
	}
	if hex.EncodeToString(sum.Sum(nil)) != o.SHA256 {
		return o.Name + " is damaged: it does not have the checksum of the manifest", nil
	}
	return "", nil
}
