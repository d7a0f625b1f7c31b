// Package docs has no code. Its tests hold the documentation to the repository: what a page names
// exists, where a link leads there is something, and prose is narrow enough to read.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"
)

const root = ".."

// page is one Markdown file.
type page struct {
	path  string // from the root of the repository
	lines []line
}

// line is one line of a page, with its number.
type line struct {
	number int
	text   string
	code   bool // in a block of code
}

// pages returns all Markdown files of the repository.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, path := range files(t) {
		if filepath.Ext(path) == ".md" {
			all = append(all, page{path: path, lines: split(read(t, path))})
		}
	}
	if len(all) < 12 {
		t.Fatalf("found only %d pages", len(all))
	}
	return all
}

// split tells the lines of code from the others. Code is fenced, or indented below an empty line.
func split(text string) []line {
	var all []line
	fenced, indented, empty, list := false, false, true, false
	for i, text := range strings.Split(text, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(text), "```")
		deep := strings.HasPrefix(text, "    ")
		switch {
		case fence:
			fenced = !fenced
		case text == "":
		case !deep:
			list = listItem.MatchString(text) || list && strings.HasPrefix(text, " ")
			indented = false
		case empty && !list:
			indented = true
		}
		all = append(all, line{number: i + 1, text: text, code: fence || fenced || indented && deep})
		empty = text == ""
	}
	return all
}

var listItem = regexp.MustCompile(`^\s*([-*]|\d+\.) `)

// files returns the files of the repository, without tools, programs and hidden folders.
var files = func() func(t *testing.T) []string {
	all := sync.OnceValues(func() (all []string, err error) {
		err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name := entry.Name()
			hidden := strings.HasPrefix(name, ".") && path != root && name != ".ci"
			switch {
			case entry.IsDir() && (hidden || name == "bin" || name == "node_modules"):
				return filepath.SkipDir
			case entry.Type().IsRegular() && !hidden:
				relative, _ := filepath.Rel(root, path)
				all = append(all, filepath.ToSlash(relative))
			}
			return nil
		})
		return all, err
	})
	return func(t *testing.T) []string {
		t.Helper()
		found, err := all()
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
}()

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestProseIsNarrow: a line of prose has at most 100 characters. Tables, code, pictures and
// addresses may be wider.
func TestProseIsNarrow(t *testing.T) {
	for _, p := range pages(t) {
		for _, l := range p.lines {
			text := strings.TrimSpace(l.text)
			if l.code || strings.HasPrefix(text, "|") || strings.HasPrefix(text, "![") || strings.Contains(text, "](https://") {
				continue
			}
			if n := utf8.RuneCountInString(l.text); n > 100 {
				t.Errorf("%s:%d has %d characters: at most 100 of prose", p.path, l.number, n)
			}
		}
	}
}

// TestLinksLeadSomewhere: the file of each link is there, and the heading that it names.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings := map[string][]string{}
	for _, p := range pages(t) {
		headings[p.path] = p.anchors()
	}
	seen := 0
	for _, p := range pages(t) {
		// A link may be broken over two lines.
		for _, m := range link.FindAllStringSubmatch(p.prose(), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			file, anchor, _ := strings.Cut(m[1], "#")
			path := p.path
			if file != "" {
				path = filepath.ToSlash(filepath.Join(filepath.Dir(p.path), file))
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s, which is not there", p.path, m[1])
			} else if anchor != "" && !slices.Contains(headings[path], anchor) {
				t.Errorf("%s links to %s: %s has no such heading", p.path, m[1], path)
			}
		}
	}
	if seen < 50 {
		t.Errorf("found only %d links", seen)
	}
}

// prose returns the page without its code.
func (p page) prose() string {
	var b strings.Builder
	for _, l := range p.lines {
		if !l.code {
			b.WriteString(strings.TrimSpace(l.text) + "\n")
		}
	}
	return b.String()
}

// anchors returns the names by which headings of the page can be linked to, as GitHub makes them.
func (p page) anchors() (all []string) {
	for _, l := range p.lines {
		title, found := strings.CutPrefix(strings.TrimLeft(l.text, "#"), " ")
		if l.code || !strings.HasPrefix(l.text, "#") || !found {
			continue
		}
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title))
	}
	return all
}

// declared are the names in the Go code of the repository.
type declared struct {
	words    map[string]bool            // every word of a file that is not Markdown
	packages map[string]map[string]bool // names of a package's level, by the package's name
	members  map[string]map[string]bool // fields and methods, by the type's name
	tests    map[string]bool
	literals map[string]bool // strings in cmd/headroom
	uses     map[string]bool // the first words of "Use" in cmd/headroom: the verbs
}

var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// names returns all that a page can name. It is read once.
func names(t *testing.T) declared {
	t.Helper()
	reading.Do(func() { readNames(t) })
	if known.words == nil {
		t.Fatal("the code was not read")
	}
	return known
}

var (
	reading sync.Once
	known   declared
)

func readNames(t *testing.T) {
	t.Helper()
	d := declared{map[string]bool{}, map[string]map[string]bool{}, map[string]map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, path := range files(t) {
		switch filepath.Ext(path) {
		case ".md", ".gz", ".svg", ".sum":
			continue
		case ".go":
			d.parse(t, path)
		}
		if path == "docs/named_test.go" {
			continue // it has wrong names
		}
		for _, w := range word.FindAllString(read(t, path), -1) {
			d.words[w] = true
		}
	}
	known = d
}

func (d declared) parse(t *testing.T, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg := strings.TrimSuffix(file.Name.Name, "_test")
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			d.function(pkg, decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				d.spec(pkg, spec)
			}
		}
	}
	if strings.HasPrefix(path, "cmd/headroom/") {
		ast.Inspect(file, func(n ast.Node) bool {
			d.verb(n)
			return true
		})
	}
}

// function adds a function, or a method of a type.
func (d declared) function(pkg string, decl *ast.FuncDecl) {
	name := decl.Name.Name
	if decl.Recv == nil {
		add(d.packages, pkg, name)
		d.tests[name] = true
		return
	}
	recv := decl.Recv.List[0].Type
	if star, ok := recv.(*ast.StarExpr); ok {
		recv = star.X
	}
	if ident, ok := recv.(*ast.Ident); ok {
		add(d.members, ident.Name, name)
	}
}

// spec adds constants and variables, or a type with its fields.
func (d declared) spec(pkg string, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, ident := range spec.Names {
			add(d.packages, pkg, ident.Name)
		}
	case *ast.TypeSpec:
		add(d.packages, pkg, spec.Name.Name)
		ast.Inspect(spec.Type, func(n ast.Node) bool {
			if field, ok := n.(*ast.Field); ok {
				for _, ident := range field.Names {
					add(d.members, spec.Name.Name, ident.Name)
				}
			}
			return true
		})
	}
}

func add(in map[string]map[string]bool, key, name string) {
	if in[key] == nil {
		in[key] = map[string]bool{}
	}
	in[key][name] = true
}

// verb adds what a node of cmd/headroom says of verbs and flags.
func (d declared) verb(n ast.Node) {
	switch n := n.(type) {
	case *ast.BasicLit:
		d.literals[strings.Trim(n.Value, "\"`")] = true
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Use" {
			d.use(n.Value)
		}
	case *ast.CallExpr: // group("jobs", ...) has verbs of its own
		if called, ok := n.Fun.(*ast.Ident); ok && called.Name == "group" {
			d.use(n.Args[0])
		}
	}
}

// use adds the verb of a usage line like "deduct SUBJECT COST".
func (d declared) use(line ast.Expr) {
	if lit, ok := line.(*ast.BasicLit); ok {
		verb, _, _ := strings.Cut(strings.Trim(lit.Value, "\"`"), " ")
		d.uses[verb] = true
	}
}
