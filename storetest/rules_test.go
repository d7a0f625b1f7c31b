package storetest

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// entry is how docs/rules.md explains a rule, a case or a topic. One that no test cites says why.
var (
	entry     = regexp.MustCompile(`\*\*(Rule|Case|Topic) ([^:]+): [^*]+\*\* `)
	notTested = regexp.MustCompile(`\*Not tested: [^*]+\.\*$`)
)

// explained are the entries of docs/rules.md, "rule 5" for one, and whether each says that nothing
// tests it.
func explained(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, paragraph := range strings.Split(string(text), "\n\n") {
		paragraph = strings.TrimSpace(strings.ReplaceAll(paragraph, "\n", " "))
		m := entry.FindStringSubmatch(paragraph)
		if m == nil || !strings.HasPrefix(paragraph, m[0]) {
			continue
		}
		name := strings.ToLower(m[1]) + " " + m[2]
		if m[1] == "Topic" {
			name = m[2]
		}
		if _, twice := all[name]; twice {
			t.Errorf("docs/rules.md explains %s twice", name)
		}
		all[name] = notTested.MatchString(paragraph)
	}
	return all
}

// citation is a mention of a number in a comment or a string: "rule 5", "cases 5 and 6", "rules 1
// to 7 and 9 to 13".
var (
	citation = regexp.MustCompile(`(?i)\b(rule|case)s? (\d+(?:(?:, | and | to )\d+)*)\b`)
	number   = regexp.MustCompile(`(, | and | to |)(\d+)`)
)

// numbers are those that a citation names.
func numbers(list string) (all []int) {
	for _, m := range number.FindAllStringSubmatch(list, -1) {
		n, _ := strconv.Atoi(m[2]) // it has no other letters than digits
		from := n
		if m[1] == " to " {
			from = all[len(all)-1] + 1
		}
		for ; from <= n; from++ {
			all = append(all, from)
		}
	}
	return all
}

// cited are the rules and cases that the project's tests cite, each with a place where.
func cited(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if name := d.Name(); strings.HasPrefix(name, ".") && name != ".." || name == "node_modules" {
				return fs.SkipDir
			}
			return err
		}
		if strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == filepath.Join("..", "storetest") {
			err = citedIn(path, all)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// citedIn adds what the comments and the strings of a file cite. The code itself may have a `case
// 5:`.
func citedIn(path string, all map[string]string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return nil
		}
		if tok != token.COMMENT && tok != token.STRING {
			continue
		}
		for _, m := range citation.FindAllStringSubmatch(text, -1) {
			for _, n := range numbers(m[2]) {
				all[strings.ToLower(m[1])+" "+strconv.Itoa(n)] = files.Position(pos).String()
			}
		}
	}
}

// TestRulesAreExplained holds the page of rules and cases and the tests that cite them to each
// other.
func TestRulesAreExplained(t *testing.T) {
	pages, tests := explained(t), cited(t)
	for _, r := range slices.Concat(contract, behaviour, crowds, crowdsOfMeters) {
		if _, numbered := tests[r.of]; !numbered {
			tests[r.of] = "the index of storetest" // a topic
		}
	}
	for name, where := range tests {
		if untested, ok := pages[name]; !ok {
			t.Errorf("%s cites %s, which docs/rules.md does not explain", where, name)
		} else if untested {
			t.Errorf("docs/rules.md says that %s is not tested, and %s cites it", name, where)
		}
	}
	for name, untested := range pages {
		if _, ok := tests[name]; !ok && !untested {
			t.Errorf("docs/rules.md explains %s: no test cites it, and the page does not say why", name)
		}
	}
}

// TestCitationsAreRead: the test above sees every way in which a number is cited.
func TestCitationsAreRead(t *testing.T) {
	for text, want := range map[string][]int{
		"5": {5}, "5 and 6": {5, 6}, "1, 2 and 4": {1, 2, 4}, "1 to 3 and 9 to 11": {1, 2, 3, 9, 10, 11},
	} {
		if got := numbers(text); !slices.Equal(got, want) {
			t.Errorf("%q cites %v, want %v", text, got, want)
		}
	}
}

// TestTheIndexIsWhole: every rule says what must be so and why, in one line each, and no two have
// one name.
func TestTheIndexIsWhole(t *testing.T) {
	names := map[string]bool{}
	for _, r := range slices.Concat(contract, behaviour, crowds, crowdsOfMeters) {
		if r.of == "" || r.name == "" || r.why == "" || r.test == nil || strings.ContainsAny(r.name+r.why, "\n") {
			t.Errorf("%s: %s: incomplete", r.of, r.name)
		}
		if full := r.of + ": " + r.name; names[full] {
			t.Errorf("%s: there are two", full)
		} else {
			names[full] = true
		}
	}
}
