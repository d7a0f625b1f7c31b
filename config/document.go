package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/lumcast/headroom"
)

// Error is a fault in a file, and where it stands.
type Error struct {
	File    string
	Line    int // from 1
	Column  int // in characters, from 1; one past the end of the line for what is missing there
	Message string
	Source  string // the line itself
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Unwrap makes e Invalid.
func (e *Error) Unwrap() error { return headroom.Invalid }

// Excerpt shows the line with a mark below the column. Of a long line it shows what is around it.
func (e *Error) Excerpt() string {
	const around = 80
	number := fmt.Sprintf("%5d | ", e.Line)
	line := []rune(e.Source)
	at := min(max(e.Column-1, 0), len(line))
	if len(line) > at+around {
		line = append(slices.Clone(line[:at+around]), []rune(" ...")...)
	}
	if at > around {
		line = append([]rune("... "), line[at-around:]...)
		at = around + len("... ")
	}
	// A tab before the mark keeps its width.
	blank := regexp.MustCompile(`[^\t]`).ReplaceAllString(string(line[:at]), " ")
	return number + string(line) + "\n" + strings.Repeat(" ", len(number)) + blank + "^"
}

// document reads the values of one YAML file. The library's own decoder is not strict enough for an
// exact limit: it takes 1.5, "200" and null for whole numbers.
type document struct {
	file   string
	source string
}

// parse returns the root of the file, nil if the file says nothing.
func (d *document) parse() (ast.Node, error) {
	d.source = strings.TrimPrefix(d.source, "\ufeff") // some editors begin a file with this mark
	if err := d.readable(); err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes([]byte(d.source), 0)
	if err != nil {
		var wrong yaml.Error
		if errors.As(err, &wrong) && wrong.GetToken() != nil {
			at := wrong.GetToken().Position
			return nil, d.at(at.Line, at.Column, wrong.GetMessage())
		}
		return nil, d.at(1, 1, err.Error())
	}
	var root ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentGroupType {
			continue
		}
		if root != nil {
			return nil, d.fault(doc.Body, "a second document: want one")
		}
		root = doc.Body
	}
	return root, nil
}

// mostNested bounds how deep lists and mappings lie in one another. The time that the parser takes
// grows with the square of that.
const mostNested = 64

var (
	// noStructure is what a line quotes, and its comment.
	noStructure = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|(?:^|[ \t])#.*`)
	// opens are the dashes at the beginning of a line that each open a list.
	opens = regexp.MustCompile(`^(?:[ \t]*[-?][ \t])*`)
)

// readable refuses what the parser would make nonsense of, or would take very long for.
func (d *document) readable() error {
	if len(d.source) > mostBytes {
		return d.at(1, 1, fmt.Sprintf("the file has more than %d MiB", mostBytes>>20))
	}
	open, count := 0, strings.Count
	for i, line := range lines(d.source) {
		if !utf8.ValidString(line) || strings.Contains(line, "\x00") {
			return d.at(i+1, 1, "this is no text in UTF-8: save the file in that encoding")
		}
		line = noStructure.ReplaceAllString(line, "")
		open += count(line, "[") + count(line, "{") - count(line, "]") - count(line, "}")
		dashes := opens.FindString(line)
		if open > mostNested || count(dashes, "-")+count(dashes, "?") > mostNested {
			return d.at(i+1, 1, fmt.Sprintf("more than %d lists and mappings in one another", mostNested))
		}
	}
	return nil
}

// keys reads a mapping with fixed keys. Each of needed must be there.
func (d *document) keys(n ast.Node, known map[string]func(ast.Node) error, needed ...string) error {
	seen := map[string]bool{}
	err := d.entries(n, "a key", func(key string, value ast.Node) error {
		seen[key] = true
		return known[key](value)
	}, known)
	if err != nil {
		return err
	}
	for _, key := range needed {
		if !seen[key] {
			return d.fault(n, "%s is missing", key)
		}
	}
	return nil
}

// entries reads a mapping and calls each with every key, in the file's order. If known is given,
// any other key is a fault. what says in messages what a key names.
func (d *document) entries(n ast.Node, what string, each func(key string, value ast.Node) error,
	known ...map[string]func(ast.Node) error) error {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return d.fault(n, "want keys and values, not %s", kind(n))
	}
	for _, entry := range values {
		key, err := d.text(entry.Key)
		if err != nil {
			return err
		}
		if key == "" {
			return d.fault(entry.Key, "the name of %s is empty", what)
		}
		for _, keys := range known {
			if _, ok := keys[key]; !ok {
				return d.fault(entry.Key, "unknown key %q: want %s", key,
					strings.Join(sortedKeys(keys), ", "))
			}
		}
		if err := each(key, entry.Value); err != nil {
			return err
		}
	}
	return nil
}

// items reads a list.
func (d *document) items(n ast.Node, each func(ast.Node) error) error {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return d.fault(n, "want a list, not %s", kind(n))
	}
	for _, item := range list.Values {
		if err := each(item); err != nil {
			return err
		}
	}
	return nil
}

// text reads a string. A bare number is one too where it stands for a name.
func (d *document) text(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	}
	return "", d.fault(n, "want a text, not %s", kind(n))
}

// plainNumber leaves out what YAML reads in another base or rounds.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// amount reads a whole number from least to the greatest int64, in plain digits.
func (d *document) amount(n ast.Node, least int64) (int64, error) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
	default:
		return 0, d.fault(n, "want a whole number, not %s", kind(n))
	}
	digits := n.GetToken().Value
	if !plainNumber.MatchString(digits) {
		return 0, d.fault(n, "%s: want a whole number in plain digits", digits)
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, d.fault(n, "%s: want at most %d", digits, int64(math.MaxInt64))
	}
	if v < least {
		return 0, d.fault(n, "%s: want at least %d", digits, least)
	}
	return v, nil
}

// kind names in messages what stands where something else should.
func kind(n ast.Node) string {
	switch n := n.(type) {
	case nil, *ast.NullNode:
		return "nothing"
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", n.Value)
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "an anchor, an alias or a tag: write the value out"
	}
	return n.GetToken().Value
}

func (d *document) fault(n ast.Node, format string, args ...any) error {
	line, column := 1, 1
	if n != nil && n.GetToken() != nil {
		at := first(n).GetToken().Position
		line, column = at.Line, at.Column
	}
	return d.at(line, column, fmt.Sprintf(format, args...))
}

// first returns what of n stands first in the file. The token of a mapping is the colon after its
// first key.
func first(n ast.Node) ast.Node {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return m.Values[0].Key
		}
	case *ast.MappingValueNode:
		return m.Key
	}
	return n
}

// at is the fault at a place. A value that is not there has one too, but past the end of its line.
func (d *document) at(line, column int, message string) error {
	all := lines(d.source)
	line = min(max(line, 1), len(all))
	source := all[line-1]
	return &Error{
		File:    d.file,
		Line:    line,
		Column:  min(max(column, 1), utf8.RuneCountInString(source)+1),
		Message: message,
		Source:  source,
	}
}

// lineEnds are what ends a line in YAML (1.2.2, 5.4).
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func lines(text string) []string { return strings.Split(lineEnds.Replace(text), "\n") }

// ParseDuration reads days ("15d", "15 days"), or what time.ParseDuration reads.
func ParseDuration(text string) (time.Duration, error) {
	days, ok := text, false
	for _, unit := range []string{" days", " day", "d"} {
		if days, ok = strings.CutSuffix(text, unit); ok {
			break
		}
	}
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n < 0 || n > int64(math.MaxInt64/(24*time.Hour)) {
		return 0, fmt.Errorf("%q: want a number of days, like 15d", text)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}
