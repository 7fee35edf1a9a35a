package parquet

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/parquet/file"

	"outlierd/schema"
)

// manifest is the state of the sink, and the step that led to it. It lists all files. Those of compacted
// days are in separate lists, one for each table, so that the cost of a step depends on what it changes
// and not on the number of files.
type manifest struct {
	Version    int              `json:"version"`
	Instance   string           `json:"instance"`    // of the folder; also in every file
	Step       int64            `json:"step"`        // number of the last step
	Watermark  int64            `json:"watermark"`   // journal id
	OpsVersion int64            `json:"ops_version"` // of the operations tables
	Ops        map[string]int64 `json:"ops"`         // by table: id up to which rows are in parts

	Tables map[string]listed `json:"tables"` // by the table's folder

	Moves     []string   `json:"moves"`     // files that are renamed from their temporary names
	Exchanges []exchange `json:"exchanges"` // folders that are exchanged, after the moves
	Removes   []string   `json:"removes"`   // files that are removed
}

// listed has the files of a table.
type listed struct {
	Files  []File `json:"files"`
	Closed string `json:"closed,omitempty"` // name of the list in _manifest of the other files
}

// File is a file of a table.
type File struct {
	Name   string `json:"name"` // below the table's folder
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`

	// The rows are those of the journal's answers (Lo, Hi], or have these numbers in an operations table.
	Lo int64 `json:"lo"`
	Hi int64 `json:"hi"`
}

const (
	manifestVersion = 2
	manifestFolder  = "_manifest"
	manifestName    = manifestFolder + "/latest.json"
)

// readManifest reads the state. For a folder without files of a sink it returns a new state. Files
// without a manifest are an error, because their watermark is unknown.
func (s *Sink) readManifest() (manifest, error) {
	text, err := s.read(manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return s.firstManifest()
	}
	if err != nil {
		return manifest{}, err
	}
	m, err := parseManifest(text)
	switch {
	case err != nil:
		return manifest{}, fmt.Errorf("%s/%s: %w: %s", s.options.Dir, manifestName, err, rebuild)
	case m.Version == 1:
		return s.takeOver(m)
	case m.Version != manifestVersion:
		return manifest{}, fmt.Errorf("%s/%s is of version %d, this program knows %d: use a newer program, or %s",
			s.options.Dir, manifestName, m.Version, manifestVersion, rebuild)
	}
	return m, nil
}

func parseManifest(text []byte) (m manifest, err error) {
	if err := json.Unmarshal(text, &m); err != nil {
		return m, err
	}
	for table, l := range m.Tables {
		if l.Closed != "" && !isClosedList(l.Closed) {
			return m, fmt.Errorf("table %s: %q is not a list of files", table, l.Closed)
		}
	}
	for _, e := range m.Exchanges {
		table, day := path.Split(e.Folder)
		if !tableName().MatchString(table) || !dateName().MatchString(day) || !isPart(e.Part) {
			return m, fmt.Errorf("%q is not a day of a table", e.Folder)
		}
	}
	return m, nil
}

func (s *Sink) firstManifest() (manifest, error) {
	for _, t := range slices.Concat(s.options.Tables, s.options.Ops) {
		orphans, err := s.list(t, func(name string) bool { return isPart(name) || isPending(name) })
		if err != nil {
			return manifest{}, err
		}
		if len(orphans) > 0 {
			return manifest{}, fmt.Errorf("%s has %s but no %s, so it is unknown up to which answer it is complete: %s",
				s.options.Dir, orphans[0], manifestName, rebuild)
		}
	}
	m := manifest{Version: manifestVersion, Instance: newInstance()}
	if err := s.folder(manifestFolder); err != nil {
		return m, err
	}
	return m, s.replaceManifest(m)
}

func newInstance() string {
	id := make([]byte, 8)
	rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// takeOver converts a manifest of the first version, which does not list the files.
func (s *Sink) takeOver(m manifest) (manifest, error) {
	s.state = m
	if err := s.finish(); err != nil {
		return m, err
	}
	m.Version, m.Instance, m.Tables = manifestVersion, newInstance(), map[string]listed{}
	m.Step++
	m.Moves, m.Removes = nil, nil
	for _, t := range slices.Concat(s.options.Tables, s.options.Ops) {
		names, err := s.list(t, func(name string) bool { return isOurs(name) && !isTemporary(name) })
		if err != nil {
			return m, err
		}
		var all []File
		for _, name := range names {
			f, err := s.describe(name)
			if err != nil {
				return m, err
			}
			f.Name = strings.TrimPrefix(name, t.FileName()+"/")
			all = append(all, f)
		}
		if len(all) > 0 {
			m.Tables[t.FileName()] = listed{Files: all}
		}
	}
	return m, s.replaceManifest(m)
}

// describe returns the manifest's entry of a file, from the file itself.
func (s *Sink) describe(name string) (f File, err error) {
	in, err := s.open(name)
	if err != nil {
		return f, err
	}
	defer in.Close()
	sum := sha256.New()
	if f.Bytes, err = io.Copy(sum, in); err != nil {
		return f, fmt.Errorf("read %s: %w", name, err)
	}
	f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	f.Lo, f.Hi = rangeOf(name)
	if isPending(path.Base(name)) {
		return f, nil
	}
	content, err := file.NewParquetReader(in)
	if err != nil {
		return f, fmt.Errorf("read %s: %w: %s", name, err, rebuild)
	}
	f.Rows = content.NumRows()
	return f, nil
}

// verify reports whether the manifest lists a file of a table. It returns an error if the file is lost or has changed
// since: a file that is written from it would lack its rows, and nothing would show that any more.
func (s *Sink) verify(t *schema.Table, name string) (listed bool, err error) {
	l := s.state.Tables[t.FileName()]
	files := l.Files
	if isPart(path.Base(name)) && indexOf(files, name) < 0 {
		if files, err = s.readClosed(t.FileName(), l); err != nil {
			return false, err
		}
	}
	i := indexOf(files, name)
	if i < 0 {
		return false, nil
	}
	return true, s.verifyFile(t, files[i])
}

func (s *Sink) verifyFile(t *schema.Table, want File) error {
	name := path.Join(t.FileName(), want.Name)
	found, err := s.describe(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is missing: %s", filepath.Join(s.options.Dir, name), rebuild)
	case err == nil && found.SHA256 != want.SHA256:
		return fmt.Errorf("%s is damaged, it does not have the checksum that it was written with: %s",
			filepath.Join(s.options.Dir, name), rebuild)
	}
	return err
}

// readClosed reads the list of a table's files of compacted days.
func (s *Sink) readClosed(table string, l listed) (all []File, err error) {
	if l.Closed == "" {
		return nil, nil
	}
	text, err := s.read(path.Join(manifestFolder, l.Closed))
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("list of the files of %s: %w: %s", table, err, rebuild)
	}
	return all, nil
}

// replaceManifest replaces the manifest, which commits a step.
func (s *Sink) replaceManifest(m manifest) error {
	temp := temporary(manifestName, 0)
	if _, _, err := s.create(temp, func(w io.Writer) error { return json.NewEncoder(w).Encode(m) }); err != nil {
		return err
	}
	if err := s.rename(temp, manifestName); err != nil {
		return err
	}
	return s.syncFolder(manifestFolder)
}

// finish applies the changes of the last step to the files, unless that is done already.
func (s *Sink) finish() error {
	folders := map[string]bool{}
	for _, name := range s.state.Moves {
		folders[path.Dir(name)] = true
		temp := temporary(name, s.state.Step)
		if _, err := s.root.Lstat(temp); err == nil {
			if err := s.rename(temp, name); err != nil {
				return err
			}
		} else if _, err := s.root.Lstat(name); err != nil {
			return fmt.Errorf("a committed file is missing: %w: %s", s.named(err), rebuild)
		}
	}
	for _, e := range s.state.Exchanges {
		made := path.Join(compactedFolder, e.Folder)
		folders[path.Dir(e.Folder)], folders[path.Dir(made)] = true, true
		if _, err := s.root.Lstat(path.Join(e.Folder, e.Part)); err == nil {
			continue // already done before a kill
		}
		if _, err := s.root.Lstat(path.Join(made, e.Part)); errors.Is(err, fs.ErrNotExist) {
			continue // done, and another program has removed the day since; 'outlierd check' reports that
		}
		err := s.exchange(made, e.Folder)
		if errors.Is(err, fs.ErrNotExist) { // the day was removed before
			err = s.rename(made, e.Folder)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range s.state.Removes {
		folders[path.Dir(name)] = true
		if err := s.remove(name); err != nil {
			return err
		}
	}
	return s.syncFolders(folders)
}

// step is a change from one state to the next.
type step struct {
	sink    *Sink
	next    manifest
	folders map[string]bool
	closed  map[string][]File // lists of compacted days to rewrite, by the table's folder
}

func (s *Sink) begin() *step {
	next := s.state
	next.Step++
	next.Ops, next.Tables = maps.Clone(s.state.Ops), map[string]listed{}
	for table, l := range s.state.Tables {
		next.Tables[table] = listed{slices.Clone(l.Files), l.Closed}
	}
	next.Moves, next.Exchanges, next.Removes = nil, nil, nil
	return &step{sink: s, next: next, folders: map[string]bool{}, closed: map[string][]File{}}
}

// write adds a file, or a new version of one. content returns the number of rows that it has written.
func (p *step) write(t *schema.Table, f File, content func(io.Writer) (int64, error)) (err error) {
	name := path.Join(t.FileName(), f.Name)
	if err := p.makeFolder(path.Dir(name)); err != nil {
		return err
	}
	p.next.Moves = append(p.next.Moves, name)
	f.Bytes, f.SHA256, err = p.sink.create(temporary(name, p.next.Step), func(w io.Writer) (err error) {
		f.Rows, err = content(w)
		return err
	})
	if err != nil {
		return err
	}
	return p.put(t, f)
}

func (p *step) makeFolder(name string) error {
	if p.folders[name] {
		return nil
	}
	p.folders[name] = true
	return p.sink.folder(name)
}

// put adds a file to the manifest, or replaces the entry of the same name.
func (p *step) put(t *schema.Table, f File) error {
	table := t.FileName()
	if p.next.Tables == nil {
		p.next.Tables = map[string]listed{}
	}
	l := p.next.Tables[table]
	if i := indexOf(l.Files, f.Name); i >= 0 {
		l.Files[i] = f
		return nil
	}
	if isPart(path.Base(f.Name)) && f.Lo < p.sink.newest(t) { // of an earlier batch: in the other list
		closed, err := p.closedOf(table)
		if err != nil {
			return err
		}
		if i := indexOf(closed, f.Name); i >= 0 {
			closed[i] = f
			return nil
		}
	}
	l.Files = append(l.Files, f)
	p.next.Tables[table] = l
	return nil
}

// newest returns the id after which parts begin that are not committed yet.
func (s *Sink) newest(t *schema.Table) int64 {
	if slices.Contains(s.options.Ops, t) {
		return s.state.Ops[t.Name]
	}
	return s.state.Watermark
}

// closedOf returns the list of a table's compacted days, which the step rewrites.
func (p *step) closedOf(table string) ([]File, error) {
	if all, ok := p.closed[table]; ok {
		return all, nil
	}
	all, err := p.sink.readClosed(table, p.next.Tables[table])
	if err == nil {
		p.closed[table] = all
	}
	return all, err
}

func indexOf(files []File, name string) int {
	return slices.IndexFunc(files, func(f File) bool { return f.Name == name })
}

// remove deletes a file, and removes it from the manifest.
func (p *step) remove(name string) error {
	p.next.Removes = append(p.next.Removes, name)
	table, below, _ := strings.Cut(name, "/")
	l := p.next.Tables[table]
	if i := indexOf(l.Files, below); i >= 0 {
		l.Files = slices.Delete(l.Files, i, i+1)
		p.next.Tables[table] = l
		return nil
	}
	closed, err := p.closedOf(table)
	if err != nil {
		return err
	}
	if i := indexOf(closed, below); i >= 0 {
		p.closed[table] = slices.Delete(closed, i, i+1)
	}
	return nil
}

// empty reports whether nothing has changed.
func (p *step) empty() bool {
	return len(p.next.Moves)+len(p.next.Removes)+len(p.closed) == 0 && p.next.OpsVersion == p.sink.state.OpsVersion
}

// commit commits the step atomically.
func (p *step) commit() error {
	for _, table := range slices.Sorted(maps.Keys(p.closed)) {
		if err := p.writeClosed(table); err != nil {
			return err
		}
	}
	if err := p.sink.syncFolders(p.folders); err != nil {
		return err
	}
	if err := p.sink.replaceManifest(p.next); err != nil {
		return err
	}
	p.sink.state = p.next
	return p.sink.finish()
}

// writeClosed writes a list under a new name, so that the previous list remains until the commit.
func (p *step) writeClosed(table string) error {
	l := p.next.Tables[table]
	if l.Closed != "" {
		p.next.Removes = append(p.next.Removes, path.Join(manifestFolder, l.Closed))
	}
	l.Closed = ""
	if all := p.closed[table]; len(all) > 0 {
		l.Closed = closedListOf(table, p.next.Step)
		p.folders[manifestFolder] = true
		_, _, err := p.sink.create(path.Join(manifestFolder, l.Closed),
			func(w io.Writer) error { return json.NewEncoder(w).Encode(all) })
		if err != nil {
			return err
		}
	}
	p.next.Tables[table] = l
	return nil
}

// change marks the state as unknown if do fails.
func (s *Sink) change(do func() error) error {
	err := do()
	if err != nil {
		s.stale = true
	}
	return err
}
