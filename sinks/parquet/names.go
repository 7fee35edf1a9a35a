package parquet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"outlierd/schema"
)

// Names within a table's folder, and their temporary form, which carries the
// number of the step that it belongs to.
var (
	partName      = regexp.MustCompile(`^part-\d{12,}-\d{12,}\.parquet$`)
	pendingName   = regexp.MustCompile(`^pending-\d{12,}-\d{12,}\.arrow$`)
	temporaryName = regexp.MustCompile(`^(part-\d{12,}-\d{12,}\.parquet|pending-\d{12,}-\d{12,}\.arrow|current\.parquet|open\.parquet)\.\d+\.tmp$`)
	dateName      = regexp.MustCompile(`^date=\d{4}-\d{2}-\d{2}$`)
)

func isPart(name string) bool      { return partName.MatchString(name) }
func isPending(name string) bool   { return pendingName.MatchString(name) }
func isTemporary(name string) bool { return temporaryName.MatchString(name) }

// partOf names the rows of the ids (lo, hi] after the first and the last.
func partOf(lo, hi int64) string { return fmt.Sprintf("part-%012d-%012d.parquet", lo+1, hi) }

// lastOf is the last id of a part, by its name.
func lastOf(part string) int64 {
	var lo, hi int64
	_, _ = fmt.Sscanf(path.Base(part), "part-%d-%d.parquet", &lo, &hi) // it is the name of a part
	return hi
}

func pendingOf(lo, hi int64) string { return fmt.Sprintf("pending-%012d-%012d.arrow", lo+1, hi) }

func dateOf(t time.Time) string { return "date=" + t.UTC().Format(time.DateOnly) }

func current(t *schema.Table) string { return path.Join(t.FileName(), "current.parquet") }

func temporary(name string, step int64) string { return fmt.Sprintf("%s.%d.tmp", name, step) }

// list finds a table's files by their names, in its folder and in those of its
// dates, in the order of the journal.
func (s *Sink) list(t *schema.Table, is func(name string) bool) ([]string, error) {
	var found []string
	entries, err := s.readFolder(t.FileName())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(t.FileName(), e.Name())
		if e.Type().IsRegular() && is(e.Name()) {
			found = append(found, name)
		}
		if !e.IsDir() || !dateName.MatchString(e.Name()) {
			continue
		}
		below, err := s.readFolder(name)
		if err != nil {
			return nil, err
		}
		for _, e := range below {
			if e.Type().IsRegular() && is(e.Name()) {
				found = append(found, path.Join(name, e.Name()))
			}
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return found, nil
}

// readFolder is empty for a folder that is not there.
func (s *Sink) readFolder(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.root.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}
