package command

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNamesInContributingAndDesignExist checks the code spans of docs/design/*.md and of the table in
// CONTRIBUTING.md: paths below our top folders, Go files, qualified names (package.Name, Type.member) and
// capitalized names.
func TestNamesInContributingAndDesignExist(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	tree := readTree(t, root)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "design", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("docs/design has %d pages, error %v", len(pages), err)
	}
	for _, page := range pages {
		tree.check(t, page, readText(t, page))
	}
	page := filepath.Join(root, "CONTRIBUTING.md")
	_, table, found := strings.Cut(readText(t, page), "## Where to change what")
	if !found {
		t.Fatal("CONTRIBUTING.md has no section \"Where to change what\"")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	tree.check(t, page, table)
}

// TestTroubleshootingHasRealMessages: what docs/troubleshooting.md calls a message is in the source; … stands for a
// value.
func TestTroubleshootingHasRealMessages(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	messages := slices.Collect(maps.Keys(readTree(t, root).literals))
	rows := regexp.MustCompile("(?m)^\\| (`.*?) \\| ").FindAllStringSubmatch(readText(t, filepath.Join(root, "docs", "troubleshooting.md")), -1)
	if len(rows) < 20 {
		t.Fatalf("docs/troubleshooting.md has %d rows with a message, want more", len(rows))
	}
	for _, row := range rows {
		for _, message := range codeSpan.FindAllStringSubmatch(row[1], -1) {
			parts := strings.Split(strings.ToLower(message[1]), "…")
			if !slices.ContainsFunc(messages, func(m string) bool {
				return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(m, part) })
			}) {
				t.Errorf("docs/troubleshooting.md has the message `%s`, which nothing prints", message[1])
			}
		}
	}
}

// sourceTree has the names that the Go files of the repository declare.
type sourceTree struct {
	root     string
	files    map[string]bool            // base names of Go files
	members  map[string]map[string]bool // names by package and by type, of all packages
	names    map[string]bool            // declared names, members included
	imports  map[string]bool            // last elements of import paths, such as http
	literals map[string]bool            // values of string literals, such as names of headers
}

var (
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
	qualified = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)+$`)
	exported  = regexp.MustCompile(`^[A-Z]\w*$`)
)

// check reports the code spans of a text whose names do not exist.
func (s *sourceTree) check(t *testing.T, page, text string) {
	t.Helper()
	for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
		if name := span[1]; !s.has(name) {
			t.Errorf("%s has `%s`, which does not exist: write its new name", page, name)
		}
	}
}

// has reports whether the name in a span exists, or cannot be one of the tree, such as a command, a setting or a
// column.
func (s *sourceTree) has(span string) bool {
	top, _, isPath := strings.Cut(span, "/")
	if info, err := os.Stat(filepath.Join(s.root, top)); isPath && err == nil && info.IsDir() {
		_, err := os.Stat(filepath.Join(s.root, span))
		return err == nil
	}
	switch {
	case isPath:
		return true
	case strings.HasSuffix(span, ".go"):
		return s.files[span]
	case exported.MatchString(span):
		return s.names[span] || s.literals[strings.ToLower(span)]
	case qualified.MatchString(span) && !s.literals[strings.ToLower(span)]:
		return s.resolves(strings.Split(span, "."))
	}
	return true
}

// resolves looks up package.Name, Type.member or package.Type.member. A first part that is not declared here is the
// package of a library, or a table if the second part is not capitalized.
func (s *sourceTree) resolves(parts []string) bool {
	if s.members[parts[0]] == nil {
		return s.imports[parts[0]] || !exported.MatchString(parts[0]) && !exported.MatchString(parts[1])
	}
	for i, part := range parts[1:] {
		// The type of a field is not looked up, so the member may be of any type.
		if of := s.members[parts[i]]; of != nil && !of[part] || of == nil && !s.names[part] {
			return false
		}
	}
	return true
}

func readTree(t *testing.T, root string) *sourceTree {
	t.Helper()
	s := &sourceTree{
		root: root, files: map[string]bool{}, members: map[string]map[string]bool{}, names: map[string]bool{},
		imports: map[string]bool{}, literals: map[string]bool{},
	}
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s.files[entry.Name()] = true
		s.add(file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sourceTree) add(file *ast.File) {
	of := file.Name.Name
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ImportSpec:
			path, _ := strconv.Unquote(n.Path.Value) // the parser has checked it
			s.imports[path[strings.LastIndex(path, "/")+1:]] = true
			return false
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				s.literals[strings.ToLower(text)] = true
			}
		case *ast.FuncDecl:
			if n.Recv == nil {
				s.declare(of, n.Name)
			} else {
				s.declare(receiver(n.Recv.List[0].Type), n.Name)
			}
		case *ast.TypeSpec:
			s.declare(of, n.Name)
			for _, f := range fieldsOf(n.Type) {
				s.declare(n.Name.Name, f.Names...)
			}
		case *ast.ValueSpec:
			s.declare(of, n.Names...)
		}
		return true
	})
}

// declare adds names of a package or of a type.
func (s *sourceTree) declare(of string, names ...*ast.Ident) {
	if s.members[of] == nil {
		s.members[of] = map[string]bool{}
	}
	for _, name := range names {
		s.members[of][name.Name], s.names[name.Name] = true, true
	}
}

// receiver returns the name of a method's type.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return ""
}

// fieldsOf returns the fields of a struct or the methods of an interface.
func fieldsOf(kind ast.Expr) []*ast.Field {
	switch kind := kind.(type) {
	case *ast.StructType:
		return kind.Fields.List
	case *ast.InterfaceType:
		return kind.Methods.List
	}
	return nil
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
