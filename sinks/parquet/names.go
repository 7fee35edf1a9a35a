package parquet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"outlierd/lazyregexp"
	"outlierd/schema"
)

// Names within a table's folder, and their temporary form, which ends in the number of the step that
// renames the file.
var (
	partName      = lazyregexp.New(`^part-\d{12,}-\d{12,}\.parquet$`)
	pendingName   = lazyregexp.New(`^pending-\d{12,}-\d{12,}\.arrow$`)
	temporaryName = lazyregexp.New(`^(part-\d{12,}-\d{12,}\.parquet|pending-\d{12,}-\d{12,}\.arrow|current\.parquet|open\.parquet)\.\d+\.tmp$`)
	dateName      = lazyregexp.New(`^date=\d{4}-\d{2}-\d{2}$`)
	tableName     = lazyregexp.New(`^[a-z_]+/$`)
	closedName    = lazyregexp.New(`^[a-z_]+-\d{12,}\.json$`)
)

func isPart(name string) bool      { return partName().MatchString(name) }
func isPending(name string) bool   { return pendingName().MatchString(name) }
func isTemporary(name string) bool { return temporaryName().MatchString(name) }

// isOurs reports whether a name in a table's folder is one that a sink creates.
func isOurs(name string) bool {
	return isPart(name) || isPending(name) || isTemporary(name) || name == currentName || name == openName
}

// The files of a table that are rewritten.
const (
	currentName = "current.parquet"
	openName    = "open.parquet"
)

// closedListOf returns the name of a list in _manifest, with the number of the step that wrote it.
func closedListOf(table string, step int64) string { return fmt.Sprintf("%s-%012d.json", table, step) }

func isClosedList(name string) bool { return closedName().MatchString(name) }

// partOf returns the name of the part with the ids (lo, hi]. The name has the first and the last id.
func partOf(lo, hi int64) string { return fmt.Sprintf("part-%012d-%012d.parquet", lo+1, hi) }

// rangeOf returns the ids (lo, hi] of a part or of a pending file from its name; 0 for other files.
func rangeOf(name string) (lo, hi int64) {
	if ids, ok := strings.CutPrefix(path.Base(name), "part-"); ok {
		_, _ = fmt.Sscanf(ids, "%d-%d", &lo, &hi)
	} else if ids, ok := strings.CutPrefix(path.Base(name), "pending-"); ok {
		_, _ = fmt.Sscanf(ids, "%d-%d", &lo, &hi)
	}
	return max(lo-1, 0), hi
}

// firstOf and lastOf return the first and the last id of a part from its name.
func firstOf(part string) int64 {
	lo, _ := rangeOf(part)
	return lo + 1
}

func lastOf(part string) int64 {
	_, hi := rangeOf(part)
	return hi
}

func pendingOf(lo, hi int64) string { return fmt.Sprintf("pending-%012d-%012d.arrow", lo+1, hi) }

func dateOf(t time.Time) string { return "date=" + t.UTC().Format(time.DateOnly) }

func current(t *schema.Table) string { return path.Join(t.FileName(), currentName) }

func temporary(name string, step int64) string { return fmt.Sprintf("%s.%d.tmp", name, step) }

// list finds a table's files by name, in its folder and the folders of its dates, in the order of the
// journal.
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
		if !e.IsDir() || !dateName().MatchString(e.Name()) {
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

// readFolder returns the entries of a folder; none if it does not exist.
func (s *Sink) readFolder(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.root.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, s.named(err)
}
