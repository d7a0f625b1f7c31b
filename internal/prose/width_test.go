// Package prose tests how the comments and the documentation of the project are written.
package prose

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// most is how many columns a comment or a line of documentation may have. A tab is one column.
const most = 100

// TestCommentsAndDocsAreNarrow holds that comments and documentation can be read without scrolling.
// Code may be wider. So may code blocks and tables in Markdown, and what cannot be broken.
func TestCommentsAndDocsAreNarrow(t *testing.T) {
	const root = "../.."
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() != ".." && strings.HasPrefix(d.Name(), ".")):
			if path == root {
				return nil
			}
			return filepath.SkipDir
		}
		var wide func([]byte) []int
		switch filepath.Ext(path) {
		case ".go":
			wide = wideComments
		case ".md":
			wide = wideProse
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, line := range wide(text) {
			t.Errorf("%s:%d: more than %d columns", name, line, most)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files, %v", files, err)
	}
}

// output begins what an example prints, which is compared to the letter and cannot be broken.
const output = "// Output:"

// wideComments returns the numbers of the lines in a Go file that are too wide and have a comment.
// Indented text in a comment is code, and may be wider.
func wideComments(text []byte) (wide []int) {
	lines := strings.Split(string(text), "\n")
	printed := 0 // the last line of what an example prints
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, tok, comment := s.Scan()
		if tok == token.EOF {
			return wide
		}
		if tok != token.COMMENT || strings.HasPrefix(comment, "//\t") || strings.HasPrefix(comment, "//go:") {
			continue
		}
		first := file.Line(pos)
		if comment == output || printed == first-1 && printed > 0 && strings.HasPrefix(strings.TrimSpace(lines[first-1]), "//") {
			printed = first
			continue
		}
		for n := first; n <= first+strings.Count(comment, "\n"); n++ {
			if tooWide(lines[n-1]) {
				wide = append(wide, n)
			}
		}
	}
}

// wideProse returns the numbers of the lines of a Markdown file that are too wide and are prose.
func wideProse(text []byte) (wide []int) {
	code := false
	for i, line := range bytes.Split(text, []byte("\n")) {
		trimmed := strings.TrimSpace(string(line))
		if strings.HasPrefix(trimmed, "```") {
			code = !code
		}
		if code || strings.HasPrefix(trimmed, "|") || strings.HasPrefix(string(line), "    ") {
			continue
		}
		if tooWide(string(line)) {
			wide = append(wide, i+1)
		}
	}
	return wide
}

// unbreakable is what cannot be broken: an address, or the target of a link.
var unbreakable = regexp.MustCompile(`\]\([^)]*\)|https?://\S+`)

// tooWide reports whether a line is too wide, apart from what cannot be broken.
func tooWide(line string) bool {
	return utf8.RuneCountInString(unbreakable.ReplaceAllString(line, "]")) > most
}

func TestWhatIsWide(t *testing.T) {
	x, long := strings.Repeat("x", 60), strings.Repeat("word ", 25)
	for text, want := range map[string]int{
		"package p // " + long:                                           1,
		"package p\n\n// " + long:                                        1,
		"package p\n\n/*\n" + long + "\n*/":                              1,
		"package p\n\n//\t" + long:                                       0,
		"package p\n\nvar s = `" + long + "`":                            0,
		"package p\n\nvar s = `// " + long + "`":                         0,
		"package p\n\n// see https://example.org/" + x + x:               0,
		"package p\n\n// " + strings.Repeat("ü", most-3):                 0,
		"package p\n\nvar s = \"" + x + x + "\" // a comment at its end": 1,
	} {
		if got := len(wideComments([]byte(text))); got != want {
			t.Errorf("%d wide lines in\n%s\nwant %d", got, text, want)
		}
	}
	for text, want := range map[string]int{
		long: 1, "| " + long: 0, "    " + long: 0, "```\n" + long + "\n```": 0, "[a link](" + x + x + ")": 0,
		"```\n```\n" + long: 1, "- " + long: 1, "[" + long + "](x)": 1,
	} {
		if got := len(wideProse([]byte(text))); got != want {
			t.Errorf("%d wide lines in\n%s\nwant %d", got, text, want)
		}
	}
}
