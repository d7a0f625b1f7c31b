package main

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sample is a source file with something for each kind of change.
const sample = `package sample

import "errors"

const most = 3

var errMuch = errors.New("too much")

type box struct{ open bool }

func total(all []int, b *box) (sum int, err error) {
	defer func() { b.open = false }()
	for _, n := range all {
		if n < 0 || n == most {
			continue
		}
		sum += n * 2
	}
	switch {
	case sum > 10 && !b.open:
		return 0, errMuch
	}
	switch sum {
	case 4:
		_ = sum
		sum++
	}
	if closed(b) {
		log.Info("closed")
		return sum - 1, nil
	}
	return sum, check("a" + "b")
}
`

// TestEachKindOfChangeIsMade checks the changes of the sample, in the order of its text.
func TestEachKindOfChangeIsMade(t *testing.T) {
	all, err := mutate("sample.go", []byte(sample), func(s string) bool { return strings.HasPrefix(s, "log.") })
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.String())
		if _, err := parser.ParseFile(token.NewFileSet(), "", m.in([]byte(sample)), 0); err != nil {
			t.Errorf("%s does not parse: %v\n%s", m, err, m.in([]byte(sample)))
		}
	}
	want := []string{
		"5:14: 4 in place of 3",
		"12:2: left out: defer func() { b.open = false }()",
		"12:17: left out: b.open = false",
		"12:26: true in place of false",
		"14:6: never so: n < 0 || n == most",
		"14:8: <= in place of <: n < 0",
		"14:10: 1 in place of 0",
		"14:12: && in place of ||: n < 0 || n == most",
		"14:17: != in place of ==: n == most",
		"15:4: left out: continue",
		"17:3: left out: sum += n * 2",
		"17:12: / in place of *: n * 2",
		"17:14: 3 in place of 2",
		"18:2: only the first round of the loop",
		"20:7: never so: sum > 10 && !b.open",
		"20:11: >= in place of >: sum > 10",
		"20:13: 11 in place of 10",
		"20:16: || in place of &&: sum > 10 && !b.open",
		"20:19: without the not: !b.open",
		"21:13: no error in place of errMuch",
		"24:7: 5 in place of 4",
		"25:3: nothing is done in: case 4",
		"26:3: left out: sum++",
		"28:5: never so: closed(b)",
		"28:5: not: closed(b)",
		"30:14: + in place of -: sum - 1",
		"30:16: 2 in place of 1",
		`32:14: no error in place of check("a" + "b")`,
	}
	for i := range want {
		want[i] = "sample.go:" + want[i]
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestThePlacesOfAnEarlierRunAreTriedAlone gives places by line, and by line and column.
func TestThePlacesOfAnEarlierRunAreTriedAlone(t *testing.T) {
	all, err := mutate("sample.go", []byte(sample), func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	some, err := chosen(all, []string{"sample.go:14:10", "sample.go:20"})
	var got []string
	for _, m := range some {
		got = append(got, fmt.Sprintf("%d:%d", m.at.line, m.at.col))
	}
	if want := []string{"14:10", "20:7", "20:11", "20:13", "20:16", "20:19"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, place := range []string{"sample.go:1", "sample.go:14:9", "other.go:14", "sample.go", ""} {
		if some, err := chosen(all, []string{"sample.go:20", place}); err == nil {
			t.Errorf("%q: %v", place, some)
		}
	}
}

// module is a module whose tests notice some changes.
var module = map[string]string{
	"go.mod": "module example\n\ngo 1.24\n",
	"sum/sum.go": `package sum

func Positive(all []int) (sum int) {
	for _, n := range all {
		if n > 0 {
			sum += n
		}
	}
	return sum
}

func Unused() bool { return true }

func Many(n int) bool { return n >= 2 }
`,
	"sum/sum_test.go": `package sum

import "testing"

func TestSum(t *testing.T) {
	if got := Positive([]int{1, 2, -4}); got != 3 {
		t.Fatal(got)
	}
}
`,
	"user/user.go": "package user\n",
	"user/user_test.go": `package user

import (
	"testing"

	"example/sum"
)

func TestMany(t *testing.T) {
	if !sum.Many(5) {
		t.Fatal()
	}
}
`,
}

// inModule makes a directory with the module the working directory of the test.
func inModule(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range module {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// TestWhatIsNotNoticedIsTold tries a module with some tests, whose files must stay as they are.
func TestWhatIsNotNoticedIsTold(t *testing.T) {
	inModule(t)
	try := func(tests ...string) (string, summary) {
		var out bytes.Buffer
		r := &runner{ctx: t.Context(), temp: t.TempDir(), jobs: 1, out: &out}
		var err error
		if r.packages, err = r.list([]string{"./sum"}); err == nil {
			r.tests, err = r.list(tests)
		}
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.mutants(func(string) bool { return true }, func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		sum, err := r.try(all)
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), sum
	}

	file := filepath.Join("sum", "sum.go")
	out, sum := try("./sum")
	want := "NOT NOTICED  " + file + ":5:8: >= in place of >: n > 0\n" + // 0 adds nothing
		"NOT REACHED  " + file + ":12:29: false in place of true\n" +
		"NOT REACHED  " + file + ":14:34: > in place of >=: n >= 2\n" +
		"NOT REACHED  " + file + ":14:37: 3 in place of 2\n"
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if want := (summary{noticed: 4, survived: 1, unreached: 3}); sum != want || sum.share() != 50 {
		t.Errorf("%+v, %g %%, want %+v and 50 %%: %s", sum, sum.share(), want, sum)
	}

	if _, sum = try("./sum", "./user"); sum[unreached] != 1 || sum[noticed] != 4 {
		t.Errorf("with the tests of who uses the package: %s", sum)
	}
	if src, err := os.ReadFile(file); err != nil || string(src) != module["sum/sum.go"] {
		t.Errorf("a file of the tree was changed: %v", err)
	}
}

// TestTestsThatFailByThemselvesAreAnError: otherwise every change would be taken for noticed.
func TestTestsThatFailByThemselvesAreAnError(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": module["go.mod"], "a.go": "package a\n",
		"a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestIt(t *testing.T) { t.Fatal() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	if err := run(t.Context(), []string{"."}); err == nil || !strings.Contains(err.Error(), "fail without a change") {
		t.Errorf("%v", err)
	}
}
