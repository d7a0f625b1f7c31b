package interleave

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom/proof/report"
)

var (
	keyed  = regexp.MustCompile(`(quota(?:Ops|OpsBefore|Holds|Held|Grants|Debts|Past(?::[a-z]+)?)\.[?!~]?)(?:[^ ,()?!~]|[?!~] )[^ ,()]*`)
	limit  = regexp.MustCompile(`(quota[A-Z][a-z]+):[a-z]+`)
	hashed = regexp.MustCompile(`^(quotaOps|quotaOpsBefore)\.~\*`)
	values = regexp.MustCompile(`(=|<=|>=|<|BETWEEN) [^()]*`)
)

// guard names what a term of a condition guards: the kind of request that it stands in, and the
// term without ids and values.
func guard(u update, term string) string {
	plain, prefix := u.plain(term), "quota"
	if strings.Contains(plain, "quota/tokens/") { // it guards the other meter of a request
		plain, prefix = strings.ReplaceAll(plain, "quota/tokens/", "quota"), "quota/tokens/"
	}
	term = keyed.ReplaceAllStringFunc(plain, func(path string) string {
		if strings.HasPrefix(path, "quotaPast") && strings.HasSuffix(path, ".more") {
			return path // it is no total
		}
		if part := strings.LastIndexByte(path, '.'); strings.HasPrefix(path, "quotaGrants.") && part > len("quotaGrants") {
			return "quotaGrants.*" + path[part:]
		}
		// A long id stands by its hash.
		return hashed.ReplaceAllString(keyed.ReplaceAllString(path, "$1*"), "$1.*")
	})
	term = values.ReplaceAllString(limit.ReplaceAllString(term, "$1"), "$1")
	kind := u.kind(prefix)
	if prefix != "quota" && slices.Contains(ofTheOther, term) {
		return "the other meter: " + term
	}
	if strings.HasPrefix(term, "quotaCount BETWEEN") && kind == "write" && strings.Contains(u.plain(u.UpdateExpression), ".used = ") {
		kind = "drawing" // that the plan is used up
	}
	return kind + ": " + strings.TrimSpace(term)
}

// ofTheOther are guards that count by themselves where they guard the other meter of a request.
// The rest is the same code as that for a meter alone.
var ofTheOther = []string{"quotaCount BETWEEN", "attribute_not_exists(quotaOps.*)", "quotaOps.* ="}

// kind is what an update is for, as far as the meter goes whose attributes have this prefix.
func (u update) kind(prefix string) string {
	set := u.plain(u.UpdateExpression)
	switch {
	case strings.Contains(set, prefix+"Gen = ") && strings.Contains(set, prefix+"Spilt = "):
		return "moving ids"
	case strings.Contains(set, prefix+"Format = ") && strings.Contains(set, prefix+"Holds = "):
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
		if !strings.Contains(u.ConditionExpression, "#") {
			continue // there is none, or it is the seed's
		}
		for _, term := range terms(u.ConditionExpression) {
			seen[guard(u, term)] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// notice says how the checker notices that a guard is missing.
type notice struct {
	world string   // that breaks without it,
	with  []string // if these are missing too: each of them alone is enough there
	test  string   // where no world breaks: the test of dynamostore that fails without it,
	why   string   // or else what it is for all the same
}

var guards = map[string]notice{
	"first write: quotaCount BETWEEN":                                 {world: "beside the seed's own code"},
	"first write: attribute_not_exists(quotaSpan)":                    {world: "beside the seed's own code", with: []string{"first write: attribute_not_exists(quotaFormat)", "first write: attribute_not_exists(quotaOps)"}},
	"first write: quotaWeek =":                                        {why: "the seed's own code turns no week in these worlds"},
	"first write: attribute_not_exists(quotaCarried)":                 {why: "as of a write"},
	"write: (attribute_not_exists(quotaWeek) OR quotaWeek =)":         {world: "a grant and no charge yet"},
	"write: quotaSpilt =":                                             {why: "quotaGen and quotaEpoch say the same"},
	"first write: (plan =(attribute_not_exists(plan) OR plan =))":     {world: "a plan before the first write"},
	"first write: plan =":                                             {world: "a plan before the first write"},
	"first write: (attribute_not_exists(quotaWeek) OR quotaWeek =)":   {world: "a new subject, beside the seed's own code"},
	"first write: attribute_not_exists(quotaFormat)":                  {world: "the first of a new subject", with: []string{"first write: attribute_not_exists(quotaOps)", "first write: (attribute_not_exists(quotaWeek) OR quotaWeek =)"}},
	"first write: attribute_not_exists(quotaOps)":                     {world: "the first of a new subject", with: []string{"first write: attribute_not_exists(quotaFormat)", "first write: (attribute_not_exists(quotaWeek) OR quotaWeek =)"}},
	"moving ids: quotaOps.* =":                                        {world: "ids that move to the ledger"},
	"moving ids: quotaOpsBefore.* =":                                  {why: "a record that changes goes to the young generation, so that none is removed here that was not copied; quotaEpoch guards which generation it is"},
	"moving ids: quotaGen =":                                          {test: "TestTwoWhoMoveOtherIDsAtOnce"},
	"moving ids: quotaEpoch =":                                        {test: "TestAMoveThatGoesOnTwoEpochsLater"},
	"moving ids: quotaFormat =":                                       {test: "TestAMoveStopsAtANewerFormat"},
	"write: (plan =(attribute_not_exists(plan) OR plan =))":           {world: "a plan before the first write"},
	"write: plan =":                                                   {world: "a plan change"},
	"write: (attribute_not_exists(plan) OR plan =)":                   {why: "it stands in every change; those that give units back do not depend on the plan"},
	"write: attribute_not_exists(quotaCarried)":                       {why: "what is carried over is set when the window opens, and quotaSpan guards which window that is"},
	"write: quotaCarried =":                                           {why: "as attribute_not_exists(quotaCarried)"},
	"write: attribute_not_exists(quotaGrants.*)":                      {world: "grants", with: []string{"write: attribute_not_exists(quotaOps.*)"}},
	"write: attribute_not_exists(quotaHolds.*)":                       {why: "only the release before writes holds there, and every change turns those first; it is for one that does so meanwhile"},
	"write: attribute_not_exists(quotaOps.*)":                         {world: "one id, three deliveries"},
	"write: attribute_not_exists(quotaOpsBefore.*)":                   {world: "ids that age"},
	"write: attribute_not_exists(quotaPast.*)":                        {world: "totals that have moved"},
	"write: attribute_not_exists(quotaPast.?*)":                       {test: "TestATotalThatWasLostMeanwhileIsNotCorrected"},
	"write: attribute_not_exists(quotaPast.~*)":                       {why: "who moves a total compares the total too; this notices one that was corrected there and back, whose earlier version is no worse"},
	"write: quotaPast.~* =":                                           {why: "as attribute_not_exists(quotaPast.~*)"},
	"write: attribute_type(quotaOps, M)":                              {test: "TestWhatHappensInBetweenIsNoticed"},
	"write: attribute_type(quotaOpsBefore, M)":                        {test: "TestWhatHappensInBetweenIsNoticed"},
	"write: attribute_type(quotaHolds, M)":                            {test: "TestWhatHappensInBetweenIsNoticed"},
	"write: attribute_type(quotaPast, M)":                             {test: "TestWhatHappensInBetweenIsNoticed"},
	"write: quotaCount BETWEEN":                                       {world: "a week's turn"},
	"write: quotaEpoch =":                                             {world: "ids that age, beside holds"},
	"write: quotaFormat =":                                            {test: "TestWhatHappensInBetweenIsNoticed"},
	"write: quotaGen =":                                               {world: "ids that move to the ledger"},
	"write: quotaGrants.*.units =":                                    {world: "a grant in the place of one that is over", with: []string{"write: quotaGrants.*.expires ="}},
	"write: quotaGrants.*.expires =":                                  {world: "a grant in the place of one that is over", with: []string{"write: quotaGrants.*.units ="}},
	"write: quotaGrants.*.used BETWEEN":                               {world: "grants"},
	"drawing: quotaCount BETWEEN":                                     {world: "units that come back beside a grant"},
	"write: quotaHolds.* =":                                           {world: "holds that the release before has made", with: []string{"write: attribute_not_exists(quotaHeld)", "write: quotaFormat ="}},
	"write: quotaOps.* =":                                             {world: "two refunds"},
	"write: quotaOpsBefore.* =":                                       {world: "ids that age, beside holds", with: []string{"write: attribute_not_exists(quotaOps.*)"}},
	"write: quotaPast.* =":                                            {world: "a window of the future"},
	"write: quotaPast.* >=":                                           {world: "totals that move"},
	"write: quotaPast.more =":                                         {test: "TestATotalThatWasCorrectedAndMovedMeanwhileIsNoticed"},
	"write: quotaSpan =":                                              {world: "a day and a week"},
	"write: quotaWeek =":                                              {why: "quotaSpan says the same, unless the seed's own code turns the week"},
	"write: (quotaFormat =)":                                          {test: "TestWhatHappensInBetweenIsNoticed"},
	"write: quotaHeld.* =":                                            {world: "buckets at their end"},
	"write: quotaHeld.* >=":                                           {world: "buckets at their end"},
	"write: attribute_type(quotaHeld, M)":                             {why: "as of quotaOps"},
	"write: attribute_not_exists(quotaHeld)":                          {world: "the first holds of a subject", with: []string{"write: quotaFormat ="}},
	"first write: attribute_not_exists(quotaHeld)":                    {why: "quotaFormat says the same"},
	"write: (attribute_not_exists(quotaHolding) OR quotaHolding <=)":  {world: "as many holds as there can be"},
	"write: (attribute_not_exists(quotaSwept) OR quotaSwept <)":       {world: "a sweep, a late hold, and the settlement of the hold that was cleared away"},
	"first write: (attribute_not_exists(quotaSwept) OR quotaSwept <)": {why: "quotaFormat says the same"},
	"first write: attribute_not_exists(quotaSeries)":                  {why: "quotaFormat says the same"},
	"write: attribute_not_exists(quotaSwept)":                         {why: "two sweeps at once clear the same buckets away, whose units are guarded; it keeps the later mark where there are more buckets than one sweep takes"},
	"write: quotaSwept =":                                             {why: "as attribute_not_exists(quotaSwept)"},
	"write: attribute_not_exists(quotaSeries)":                        {world: "a sweep, a late hold, and the settlement of the hold that was cleared away"},
	"write: quotaSeries =":                                            {why: "as attribute_not_exists(quotaSeries), in a later series"},
	"first write: attribute_not_exists(quotaDebts)":                   {why: "quotaFormat says the same"},
	"write: attribute_not_exists(quotaDebts)":                         {world: "the first debts of a user, at once"},
	"write: attribute_type(quotaDebts, M)":                            {why: "as of quotaOps"},
	"write: attribute_not_exists(quotaDebts.*)":                       {why: "a debt comes with its charge, and the id of that is guarded"},
	"write: quotaDebts.* =":                                           {why: "who takes a debt off has seen the organisation settled, and an id has one debt"},
	"write: size(quotaDebts) <=":                                      {world: "as many debts as there can be"},
	"write: size(quotaGrants) =":                                      {world: "charged past the limit, beside a grant"},
	"write: size(quotaGrants) <=":                                     {world: "as many grants as there can be"},
	"the other meter: quotaCount BETWEEN":                             {world: "the last tokens of several calls"},
	"the other meter: attribute_not_exists(quotaOps.*)":               {world: "a call and its id in the other meter alone"},
	"the other meter: quotaOps.* =":                                   {world: "a refund of a call, beside one of the other meter alone"},
}

// TestEachGuardIsNeeded: for a term of the conditions that production writes, guards may name a
// world. Then the engine takes the term for true, alone or together with others that would do in
// its place, and that world breaks. So the world would tell if the term were missing. For the other
// terms guards names a test of dynamostore, or says why nothing needs them.
func TestEachGuardIsNeeded(t *testing.T) {
	began, run, together, tests, reasons := time.Now(), 0, 0, 0, 0
	named, elsewhere := map[string]*world{}, testsOf(t, "../../dynamostore")
	for _, w := range worlds() {
		named[w.name] = w
	}
	for _, g := range slices.Sorted(maps.Keys(guards)) {
		n := guards[g]
		switch {
		case n.test != "":
			tests++
			if !strings.Contains(elsewhere, "func "+n.test+"(") {
				t.Errorf("dynamostore has no %s, which is to notice that %q is missing", n.test, g)
			}
			continue
		case n.world == "":
			reasons++
			if n.why == "" {
				t.Errorf("guards does not say what %q is for", g)
			}
			continue
		}
		if raced && (named[n.world].large || named[n.world].full > 0) {
			continue
		}
		t.Run(g, func(t *testing.T) {
			run++
			if len(n.with) > 0 {
				together++
			}
			x := newExplorer(named[n.world])
			x.limit = 1_000_000
			x.mutate = func(r request) request {
				return r.without(func(u update, term string) bool {
					is := guard(u, term)
					return is == g || slices.Contains(n.with, is)
				})
			}
			v := x.exploreIn(t)
			if v == nil || strings.HasPrefix(v.what, "more than") {
				t.Fatalf("no schedule of %q breaks it: %v", n.world, v)
			}
			t.Logf("%s, after %d states: %s", n.world, len(x.states), v.what)
		})
	}
	report.Add(t, report.Row{
		Part: "interleavings", Name: "a guard taken away", Count: int64(run), Unit: "guards", Took: time.Since(began),
		Note: fmt.Sprintf("%d of them only together with others that would do in their place; %d more that a test of dynamostore notices; %d that nothing notices, each with its reason", together, tests, reasons),
	})
}

// testsOf is the text of the tests of a package.
func testsOf(t *testing.T, dir string) (all string) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	return all
}
