package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWhatIsNamedExists: each file, identifier, test, verb, flag and command that a page names is
// there. A changelog names what was, so only its links are looked at.
func TestWhatIsNamedExists(t *testing.T) {
	d := names(t)
	all := files(t)
	for _, p := range pages(t) {
		if p.path == "CHANGELOG.md" {
			continue
		}
		seen := 0
		for _, span := range p.spans() {
			seen++
			if why := d.wrong(span.text, all, filepath.Dir(p.path)); why != "" {
				t.Errorf("%s:%d: `%s`: %s", p.path, span.number, span.text, why)
			}
		}
		if strings.HasPrefix(p.path, "docs/") && seen < 5 {
			t.Errorf("found only %d names in %s", seen, p.path)
		}
	}
}

// TestAWrongNameIsFound: the test above can fail.
func TestAWrongNameIsFound(t *testing.T) {
	d, all := names(t), files(t)
	for _, text := range []string{"TestNothingOfTheKind", "nosuchfile.go", "dynamostore/nosuchfile.go", "Engine.Nothing", "headroom.Nothing", "nosuchword", "headroom nothing alice",
		"headroom deduct --nothing", "headroom jobs nothing", "make nothing", "go test ./nothing", "go test ./dynamostore -run NothingOfTheKind", "go run ./nothing"} {
		if d.wrong(text, all, "docs") == "" {
			t.Errorf("%q is not found to be wrong", text)
		}
	}
}

// spans returns what stands between backticks in the prose of a page, and the commands in its
// blocks of code.
func (p page) spans() (all []line) {
	span := regexp.MustCompile("`([^`]+)`")
	for i, l := range p.lines {
		if l.code {
			text := strings.TrimPrefix(strings.TrimSpace(l.text), "$ ")
			for j := i; strings.HasSuffix(text, `\`); {
				j++
				text = strings.TrimSuffix(text, `\`) + strings.TrimSpace(p.lines[j].text)
			}
			if first, _, _ := strings.Cut(text, " "); slices.Contains([]string{"headroom", "make", "go"}, first) {
				all = append(all, line{number: l.number, text: text})
			}
			continue
		}
		for _, m := range span.FindAllStringSubmatch(l.text, -1) {
			all = append(all, line{number: l.number, text: m[1]})
		}
	}
	return all
}

var (
	pathLike = regexp.MustCompile(`^[\w.*-]+(/[\w.*-]+)*/?$`)
	fileLike = regexp.MustCompile(`\.(go|md|yaml|json|py|svg|txt|gz)$`)
	selector = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)+$`)
	oneWord  = regexp.MustCompile(`^[A-Za-z_]\w*$`)
	wildTest = regexp.MustCompile(`-run '?"?([\w/]+)`)
	allUpper = regexp.MustCompile(`^[A-Z_0-9]+$`)
)

// wrong says what of a name or command does not exist, or nothing.
func (d declared) wrong(text string, all []string, dir string) string {
	fields := strings.Fields(text)
	switch {
	case len(fields) == 0:
		return ""
	case fields[0] == "headroom" && len(fields) > 1:
		return d.wrongCommand(fields[1:])
	case fields[0] == "make" && len(fields) > 1:
		return wrongTarget(fields[1])
	case fields[0] == "go" && len(fields) > 2:
		return d.wrongGo(text, fields[2:])
	case strings.HasPrefix(fields[0], "--"):
		return d.wrongFlag(fields[0])
	case strings.HasPrefix(text, "Test") && oneWord.MatchString(text):
		if !d.tests[text] {
			return "there is no such test"
		}
	case pathLike.MatchString(text) && fileLike.MatchString(text):
		return wrongFile(text, all, dir)
	case strings.Contains(text, "/") && pathLike.MatchString(text) && top(text, all):
		return wrongFile(text, all, dir)
	case selector.MatchString(text):
		return d.wrongSelector(strings.Split(text, "."))
	case oneWord.MatchString(text) && !allUpper.MatchString(text):
		if !d.words[text] {
			return "no file of code has that word"
		}
	}
	return ""
}

// top reports whether a path begins in a folder of the repository.
func top(path string, all []string) bool {
	first, _, _ := strings.Cut(path, "/")
	return slices.ContainsFunc(all, func(file string) bool { return strings.HasPrefix(file, first+"/") })
}

// wrongFile looks for a file or a folder: from the root, beside the page, or, of one without a
// folder, anywhere.
func wrongFile(path string, all []string, dir string) string {
	for _, from := range []string{"", dir} {
		if found, err := filepath.Glob(filepath.Join(root, from, path)); err == nil && len(found) > 0 {
			return ""
		}
	}
	if !strings.Contains(path, "/") && slices.ContainsFunc(all, func(file string) bool { return filepath.Base(file) == path }) {
		return ""
	}
	return "there is no such file"
}

// wrongSelector looks for a name of a package, or a field or a method of a type.
func (d declared) wrongSelector(parts []string) string {
	if d.packages[parts[0]] != nil && len(parts) > 1 {
		if d.packages[parts[0]][parts[1]] {
			return ""
		}
		if d.members[parts[0]] == nil {
			return "its package has no such name"
		}
	}
	members := d.members[parts[0]]
	switch {
	case members == nil && !d.words[parts[0]]:
		return "there is no such package or type"
	case members != nil && !members[parts[1]]:
		return "its type has no such field or method"
	case members == nil && !d.words[parts[1]]:
		return "no file of code has that word"
	}
	return ""
}

// wrongCommand looks for the verbs and flags of the program headroom.
func (d declared) wrongCommand(args []string) string {
	if verb := args[0]; oneWord.MatchString(verb) && !d.uses[verb] {
		return "headroom has no such verb"
	}
	if group := args[0]; len(args) > 1 && slices.Contains([]string{"jobs", "plans", "clock", "tables", "pipeline"}, group) && !d.uses[args[1]] {
		return "headroom " + group + " has no such verb"
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "--") {
			if why := d.wrongFlag(arg); why != "" {
				return why
			}
		}
	}
	return ""
}

func (d declared) wrongFlag(flag string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
	if name != "help" && name != "version" && !d.literals[name] {
		return "headroom has no flag --" + name
	}
	return ""
}

func wrongTarget(target string) string {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil || !strings.Contains("\n"+string(makefile), "\n"+target+":") {
		return "the Makefile has no such target"
	}
	return ""
}

// wrongGo looks for the packages and tests of go test and go run.
func (d declared) wrongGo(text string, args []string) string {
	for _, arg := range args {
		if arg = strings.TrimSuffix(strings.TrimSuffix(arg, "..."), "/"); strings.HasPrefix(arg, "./") {
			if _, err := os.Stat(filepath.Join(root, arg)); err != nil {
				return "there is no such package"
			}
		}
	}
	if m := wildTest.FindStringSubmatch(text); m != nil {
		name, _, _ := strings.Cut(m[1], "/")
		for test := range d.tests {
			if strings.HasPrefix(test, "Test") && strings.Contains(test, name) {
				return ""
			}
		}
		return "there is no such test"
	}
	return ""
}
