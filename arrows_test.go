package headroom_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFilesReferOneWay fails if the files of the root package refer to one another in a circle, or
// against the order in which doc.go lists them. A reader can take the files in that order, and
// never meets a name before its file.
func TestFilesReferOneWay(t *testing.T) {
	sources := map[string]string{}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = string(text)
	}
	arrows, err := arrowsOf(sources)
	if err != nil {
		t.Fatal(err)
	}
	if len(arrows["verbs.go"]) == 0 {
		t.Error("verbs.go refers to nothing: the test does not see the arrows")
	}
	if circle := circleIn(arrows); circle != nil {
		t.Fatalf("these files refer to one another in a circle; move a declaration to where it belongs:\n%s", strings.Join(circle, "\n"))
	}
	for _, fault := range listFaults(sources["doc.go"], arrows, slices.Sorted(maps.Keys(sources))) {
		t.Error(fault)
	}
}

// listFaults says what is wrong with the list of files in a package comment.
func listFaults(doc string, arrows map[string]map[string]string, files []string) (faults []string) {
	_, list, _ := strings.Cut(doc, "# The files")
	var order []string
	for line := range strings.Lines(list) {
		if names, listed := strings.CutPrefix(line, "//\t"); listed {
			for name := range strings.FieldsSeq(names) {
				order = append(order, name+".go")
			}
		}
	}
	for _, name := range files {
		if name != "doc.go" && !slices.Contains(order, name) {
			faults = append(faults, name+" is not in the list of files in doc.go")
		}
	}
	for i, name := range order {
		if !slices.Contains(files, name) || slices.Contains(order[:i], name) {
			faults = append(faults, name+" is in the list of files in doc.go, but is no file, or is there twice")
		}
		for _, to := range slices.Sorted(maps.Keys(arrows[name])) {
			if !slices.Contains(order[:i], to) {
				faults = append(faults, fmt.Sprintf("%s refers to %s (%s), which doc.go does not list before it", name, to, arrows[name][to]))
			}
		}
	}
	return faults
}

func TestFaultsOfTheListAreFound(t *testing.T) {
	arrows := map[string]map[string]string{"b.go": {"a.go": "A"}, "c.go": {"a.go": "A"}}
	for list, want := range map[string][]string{
		"a b c":   nil,
		"b a c":   {"b.go refers to a.go (A), which doc.go does not list before it"},
		"a b":     {"c.go is not in the list of files in doc.go"},
		"a b c c": {"c.go is in the list of files in doc.go, but is no file, or is there twice"},
		"d a b c": {"d.go is in the list of files in doc.go, but is no file, or is there twice"},
	} {
		if got := listFaults("// # The files\n//\n//\t"+list+"\n", arrows, []string{"a.go", "b.go", "c.go"}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
}

// TestCirclesAreFound holds that the test above can fail, for every kind of reference.
func TestCirclesAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		sources map[string]string
		want    []string
	}{
		"one way": {map[string]string{
			"a.go": "package p; type A struct{ n int }",
			"b.go": "package p; func b(a A) int { return a.n }",
			"c.go": "package p; func c() int { return b(A{}) }",
		}, nil},
		"a function and a type": {map[string]string{
			"a.go": "package p; type A struct{}; func (A) call() { b(A{}) }",
			"b.go": "package p; func b(A) {}",
		}, []string{"a.go refers to b.go: b", "b.go refers to a.go: A"}},
		"a method of a type that a third file declares": {map[string]string{
			"a.go": "package p; type A struct{}",
			"b.go": "package p; func (a A) b() { a.c() }",
			"c.go": "package p; func (a A) c() { a.b() }",
		}, []string{"b.go refers to c.go: c", "c.go refers to b.go: b"}},
		"three files, of which each refers only to the next": {map[string]string{
			"a.go": "package p; var A = B",
			"b.go": "package p; const B = len(C{})",
			"c.go": "package p; type C [1]func() ; var d = func() int { return A }",
		}, []string{"a.go refers to b.go: B", "b.go refers to c.go: C", "c.go refers to a.go: A"}},
		"a name that is hidden is no reference": {map[string]string{
			"a.go": "package p; type A struct{}; func a() int { b := 1; return b }",
			"b.go": "package p; func b(A) {}",
		}, nil},
	} {
		arrows, err := arrowsOf(c.sources)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := circleIn(arrows); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// arrowsOf says which file of a package refers to which others, and one name to which it does.
func arrowsOf(sources map[string]string) (map[string]map[string]string, error) {
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		file, err := parser.ParseFile(set, name, sources[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", nil)}
	pkg, err := config.Check("p", set, files, info)
	if err != nil {
		return nil, err
	}
	arrows := map[string]map[string]string{}
	for name, object := range info.Uses {
		from, to := set.Position(name.Pos()).Filename, set.Position(object.Pos()).Filename
		if object.Pkg() != pkg || from == to {
			continue
		}
		if arrows[from] == nil {
			arrows[from] = map[string]string{}
		}
		if said := arrows[from][to]; said == "" || object.Name() < said {
			arrows[from][to] = object.Name()
		}
	}
	return arrows, nil
}

// circleIn returns a circle of files, a line for each of its arrows, or nil if there is none.
func circleIn(arrows map[string]map[string]string) []string {
	done := map[string]bool{}
	var path, circle []string
	var visit func(file string) bool
	visit = func(file string) bool {
		if at := slices.Index(path, file); at >= 0 {
			circle = path[at:]
			return true
		}
		if done[file] {
			return false
		}
		path = append(path, file)
		if slices.ContainsFunc(slices.Sorted(maps.Keys(arrows[file])), visit) {
			return true
		}
		path, done[file] = path[:len(path)-1], true
		return false
	}
	for _, file := range slices.Sorted(maps.Keys(arrows)) {
		if visit(file) {
			break
		}
	}
	var lines []string
	for i, from := range circle {
		to := circle[(i+1)%len(circle)]
		lines = append(lines, fmt.Sprintf("%s refers to %s: %s", from, to, arrows[from][to]))
	}
	return lines
}
