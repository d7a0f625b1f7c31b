package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lumcast/headroom"
)

// TestEveryParameterIsExplained: docs/aws.md has each parameter of the template, with its default,
// and no other.
func TestEveryParameterIsExplained(t *testing.T) {
	_, text, _ := strings.Cut(read(t, "deploy/aws/template.yaml"), "\nParameters:\n")
	text = regexp.MustCompile(`(?m)^\S`).Split(text, 2)[0]
	defaults := map[string]string{}
	name := ""
	for l := range strings.Lines(text) {
		if m := regexp.MustCompile(`^  (\w+):\s*$`).FindStringSubmatch(l); m != nil {
			name = m[1]
			defaults[name] = ""
		}
		if m := regexp.MustCompile(`^    Default: (.*)$`).FindStringSubmatch(strings.TrimRight(l, "\n")); m != nil {
			defaults[name] = strings.Trim(m[1], `"`)
		}
	}
	if len(defaults) < 20 {
		t.Fatalf("found only %d parameters", len(defaults))
	}
	_, table, _ := strings.Cut(read(t, "docs/aws.md"), "| parameter | default |")
	table, _, _ = strings.Cut(table, "\n\n")
	explained := map[string]string{}
	for _, row := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(row, "|")
		values := strings.Split(cells[2], ",")
		for i, name := range strings.Split(cells[1], ",") {
			value := ""
			if i < len(values) {
				value = values[i]
			}
			explained[strings.Trim(name, " `")] = strings.Trim(value, " `")
		}
	}
	for name, value := range defaults {
		if have, ok := explained[name]; !ok || have != value {
			t.Errorf("parameter %s: the page says default %q (%v), the template %q", name, have, ok, value)
		}
	}
	for name := range explained {
		if _, ok := defaults[name]; !ok {
			t.Errorf("parameter %s is not in the template", name)
		}
	}
}

// TestEveryCodeIsExplained: the table of docs/design.md says of each code what it means.
func TestEveryCodeIsExplained(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "docs/design.md"), "## What a failure means")
	table, _, _ = strings.Cut(table, "\n\n**")
	all := codes(t)
	if len(all) < 10 {
		t.Errorf("found only %d codes", len(all))
	}
	for _, code := range all {
		if !strings.Contains(table, "`"+code+"`") {
			t.Errorf("docs/design.md does not say what the code %s means", code)
		}
	}
}

// codes returns the constants of type Code in the root package.
func codes(t *testing.T) (all []string) {
	t.Helper()
	for _, path := range files(t) {
		if filepath.Dir(path) != "." || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, _ := n.(*ast.ValueSpec)
			if spec == nil || len(spec.Values) == 0 {
				return true
			}
			of, _ := spec.Type.(*ast.Ident)
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && of != nil && of.Name == "Code" {
				code, _ := strconv.Unquote(lit.Value)
				all = append(all, code)
			}
			return true
		})
	}
	return all
}

// TestTheMethodsOfAStoreAreCounted: pages say how many methods a store has.
func TestTheMethodsOfAStoreAreCounted(t *testing.T) {
	store := reflect.TypeFor[headroom.Store]()
	n := store.NumMethod()
	words := []string{"no", "one", "two", "three", "four", "five", "six", "seven"}
	for path, says := range map[string]string{
		"README.md": strconv.Itoa(n) + " methods", "CONTRIBUTING.md": "has " + words[n] + " methods", "docs/design.md": "A store has " + words[n] + " methods",
	} {
		if !strings.Contains(strings.Join(strings.Fields(read(t, path)), " "), says) {
			t.Errorf("%s does not say %q", path, says)
		}
	}
	for i := range n {
		if name := store.Method(i).Name; !strings.Contains(read(t, "docs/design.md"), name) {
			t.Errorf("docs/design.md does not name the method %s", name)
		}
	}
}
