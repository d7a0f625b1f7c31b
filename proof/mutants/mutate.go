package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// mutant is one small change of a source file.
type mutant struct {
	file       string // its path
	at         place
	start, end int    // bytes of the file
	text       string // that stands in their place
	what       string // "never so: err != nil"
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.file, m.at.line, m.at.col, m.what)
}

// in returns the source with the change.
func (m mutant) in(src []byte) []byte {
	return slices.Concat(src[:m.start], []byte(m.text), src[m.end:])
}

// mutator finds the mutants of a file. It keeps every name in use, so that most mutants compile.
type mutator struct {
	path string
	src  []byte
	fset *token.FileSet
	skip func(statement string) bool // statements that nobody is to miss: of logging
	idle map[ast.Node]bool           // what stands beside an error, and that nobody reads
	all  []mutant
}

// mutate returns the mutants of a file in the order of its text.
func mutate(path string, src []byte, skip func(string) bool) ([]mutant, error) {
	m := &mutator{path: path, src: src, fset: token.NewFileSet(), skip: skip, idle: map[ast.Node]bool{}}
	file, err := parser.ParseFile(m.fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	m.walk(file, nil)
	slices.SortStableFunc(m.all, func(a, b mutant) int { return a.start - b.start })
	return m.all, nil
}

func (m *mutator) offset(p token.Pos) int { return m.fset.Position(p).Offset }

func (m *mutator) source(from, to token.Pos) string {
	return string(m.src[m.offset(from):m.offset(to)])
}

// short shows a piece of source in one line.
func short(source string) string {
	source = strings.Join(strings.Fields(source), " ")
	if r := []rune(source); len(r) > 80 {
		return string(r[:77]) + "..."
	}
	return source
}

func (m *mutator) add(from, to token.Pos, text, what string) {
	at := m.fset.Position(from)
	m.all = append(m.all, mutant{m.path, place{at.Line, at.Column}, at.Offset, m.offset(to), text, what})
}

// walk finds the mutants in a node of a function that has the given type.
func (m *mutator) walk(root ast.Node, of *ast.FuncType) {
	ast.Inspect(root, func(n ast.Node) bool {
		if n == root {
			m.node(n, of)
			return true
		}
		switch n := n.(type) {
		case nil, *ast.ImportSpec, *ast.StructType:
			return false
		case *ast.FuncDecl:
			if n.Body != nil {
				m.walk(n.Body, n.Type)
			}
			return false
		case *ast.FuncLit:
			m.walk(n.Body, n.Type)
			return false
		}
		if !m.idle[n] {
			m.node(n, of)
		}
		return true
	})
}

func (m *mutator) node(n ast.Node, of *ast.FuncType) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		m.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			m.add(n.Pos(), n.X.Pos(), "", "without the not: "+short(m.source(n.Pos(), n.End())))
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
				m.add(n.Pos(), n.End(), strconv.FormatInt(v+1, 10), fmt.Sprintf("%d in place of %s", v+1, n.Value))
			}
		}
	case *ast.Ident:
		if other, ok := map[string]string{"true": "false", "false": "true"}[n.Name]; ok {
			m.add(n.Pos(), n.End(), other, other+" in place of "+n.Name)
		}
	case *ast.IfStmt:
		m.never(n.Cond)
	case *ast.SwitchStmt:
		m.cases(n)
	case *ast.ForStmt:
		m.once(n.Body)
	case *ast.RangeStmt:
		m.once(n.Body)
	case *ast.ReturnStmt:
		m.returned(n, of)
	case *ast.BlockStmt:
		m.statements(n.List)
	case *ast.CaseClause:
		m.statements(n.Body)
	case *ast.CommClause:
		m.statements(n.Body)
	}
}

// other is the operator that takes the place of each operator.
var other = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL,
}

func (m *mutator) binary(n *ast.BinaryExpr) {
	to, ok := other[n.Op]
	if !ok || n.Op == token.ADD && ofStrings(n) {
		return
	}
	m.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to.String(),
		fmt.Sprintf("%s in place of %s: %s", to, n.Op, short(m.source(n.Pos(), n.End()))))
}

// ofStrings reports whether a sum is evidently one of strings.
func ofStrings(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (ofStrings(e.X) || ofStrings(e.Y))
	case *ast.BasicLit:
		return e.Kind == token.STRING || e.Kind == token.CHAR
	}
	return false
}

// never makes a condition false. One that is not a comparison is turned round too.
func (m *mutator) never(cond ast.Expr) {
	text := m.source(cond.Pos(), cond.End())
	m.add(cond.Pos(), cond.End(), "false && ("+text+")", "never so: "+short(text))
	switch c := cond.(type) {
	case *ast.BinaryExpr:
	case *ast.UnaryExpr:
		if c.Op == token.NOT {
			return
		}
	default:
		m.add(cond.Pos(), cond.End(), "!("+text+")", "not: "+short(text))
	}
}

// cases takes the cases of a switch away, one at a time.
func (m *mutator) cases(n *ast.SwitchStmt) {
	for _, s := range n.Body.List {
		c := s.(*ast.CaseClause)
		if n.Tag == nil && len(c.List) > 0 {
			for _, cond := range c.List {
				m.never(cond)
			}
			continue
		}
		if len(c.Body) == 0 {
			continue
		}
		from, to := c.Body[0].Pos(), c.Body[len(c.Body)-1].End()
		m.add(from, to, "if false {\n"+m.source(from, to)+"\n}",
			"nothing is done in: "+short(m.source(c.Pos(), c.Colon)))
	}
}

// once ends a loop after its first round.
func (m *mutator) once(body *ast.BlockStmt) {
	if len(body.List) > 0 {
		m.add(body.Rbrace, body.Rbrace, "\nbreak\n", "only the first round of the loop")
	}
}

// returned makes a function return no error where it returns one.
func (m *mutator) returned(n *ast.ReturnStmt, of *ast.FuncType) {
	if of == nil || of.Results == nil || len(n.Results) == 0 || len(n.Results) != of.Results.NumFields() {
		return
	}
	last := of.Results.List[len(of.Results.List)-1]
	if t, ok := last.Type.(*ast.Ident); !ok || t.Name != "error" {
		return
	}
	e := n.Results[len(n.Results)-1]
	if name, ok := e.(*ast.Ident); ok && name.Name == "nil" {
		return
	}
	for _, beside := range n.Results[:len(n.Results)-1] {
		m.idle[beside] = true
	}
	text := m.source(e.Pos(), e.End())
	m.add(e.Pos(), e.End(), "func(error) error { return nil }("+text+")", "no error in place of "+short(text))
}

// statements leaves out the statements that do something, one at a time.
func (m *mutator) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || blank(s.Lhs) {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
				continue
			}
		default:
			continue
		}
		text := m.source(s.Pos(), s.End())
		if !m.skip(text) {
			m.add(s.Pos(), s.End(), "if false { "+text+" }", "left out: "+short(text))
		}
	}
}

// blank reports whether an assignment has no effect beyond that of its right side.
func blank(left []ast.Expr) bool {
	return !slices.ContainsFunc(left, func(e ast.Expr) bool {
		name, ok := e.(*ast.Ident)
		return !ok || name.Name != "_"
	})
}
