package interleave

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom/proof/report"
)

var (
	keyed  = regexp.MustCompile(`(quota(?:Ops|OpsBefore|Holds|Grants|Past(?::[a-z]+)?)\.[?!]?)(?:[^ ,()?!]|[?!] )[^ ,()]*`)
	limit  = regexp.MustCompile(`(quota[A-Z][a-z]+):[a-z]+`)
	values = regexp.MustCompile(`(=|<=|>=|BETWEEN) [^()]*`)
)

// guard names what a term of a condition guards: the request that it stands in, and the term without ids and values.
func guard(u update, term string) string {
	term = keyed.ReplaceAllString(u.plain(term), "$1*")
	term = values.ReplaceAllString(limit.ReplaceAllString(term, "$1"), "$1")
	return u.kind() + ": " + strings.TrimSpace(term)
}

// kind is what an update is for.
func (u update) kind() string {
	set := u.plain(u.UpdateExpression)
	switch {
	case strings.Contains(set, "quotaGen = ") && strings.Contains(set, "quotaSpilt = "):
		return "moving ids"
	case strings.Contains(set, "quotaFormat = ") && strings.Contains(set, "quotaOps = "):
		return "first write"
	}
	return "write"
}

// guards returns what the conditions of a world's requests guard.
func (x *explorer) guards() (all []string) {
	seen := map[string]bool{}
	for _, r := range x.parsed[1:] {
		if r.op != "UpdateItem" {
			continue
		}
		u := parseUpdate(r.body)
		if u.ConditionExpression == "" {
			continue
		}
		for _, term := range terms(u.ConditionExpression) {
			seen[guard(u, term)] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// TestEachGuardIsNeeded: of each term of each condition, an engine that takes it for true breaks a world. So the worlds would tell if it were missing.
func TestEachGuardIsNeeded(t *testing.T) {
	began := time.Now()
	in := map[string][]*world{} // worlds in which a guard stands, the small ones first
	size := map[*world]int{}
	for _, w := range worlds() {
		w = w.brief()
		x, v := explored(t, w, 0)
		if v != nil {
			t.Fatal(v)
		}
		size[w] = len(x.states)
		for _, g := range x.guards() {
			in[g] = append(in[g], w)
		}
	}
	noticed := 0
	for _, g := range slices.Sorted(maps.Keys(in)) {
		slices.SortFunc(in[g], func(a, b *world) int { return size[a] - size[b] })
		by := ""
		for _, w := range in[g] {
			x := newExplorer(w)
			x.mutate = func(r request) request {
				return r.without(func(u update, term string) bool { return guard(u, term) == g })
			}
			if v := x.exploreIn(t); v != nil {
				by = w.name + ": " + v.what
				break
			}
		}
		if by != "" {
			noticed++
		}
		t.Logf("%-60s %3d worlds  %s", g, len(in[g]), by)
	}
	report.Add(t, report.Row{Part: "interleavings", Name: "guards taken away", Count: int64(len(in)), Unit: "guards", Note: "", Took: time.Since(began)})
}
