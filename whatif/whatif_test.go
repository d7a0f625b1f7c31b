package whatif_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/replay"
	"github.com/lumcast/headroom/whatif"
)

const log = `completed_at,subject,operation,quality,duration_seconds
2026-05-25T10:00:00Z,alice,a-1,standard,9000
2026-05-26T10:00:00Z,alice,a-2,standard,6000
2026-05-26T10:00:00Z,alice,a-2,standard,6000
2026-05-26T11:00:00Z,bob,b-1,generative,4500
2026-06-10T10:00:00Z,alice,a-3,standard,600
2026-06-02T10:00:00Z,alice,a-4,standard,60
2026-06-10T11:00:00Z,carol,c-1,gold,60
`

// run replays text under the plan free with these limits.
func run(t *testing.T, text, name, limits string) whatif.Outcome {
	t.Helper()
	cfg, err := config.Parse("c.yaml", []byte("plans: {free: {limits: ["+limits+"]}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := whatif.Run(context.Background(), strings.NewReader(text), "slots", whatif.Scenario{Name: name, Catalog: cfg.Catalog}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOneLogUnderTwoConfigurations(t *testing.T) {
	strict := run(t, log, "strict", "{meter: slots, units: 200}")
	loose := run(t, log, "loose", "{meter: slots, units: 300}")

	// The repeat of a-2 is refused again, since a refusal is not remembered.
	if got, want := strict.Tally, (replay.Tally{Rows: 7, Admitted: 2, Refused: 3, NeverFit: 1, Late: 1, Errors: 1, Charged: 160, RefusedUnits: 500}); got != want {
		t.Errorf("strict: %+v", got)
	}
	if got, want := loose.Tally, (replay.Tally{Rows: 7, Admitted: 4, Replayed: 1, Late: 1, Errors: 1, Charged: 560}); got != want {
		t.Errorf("loose: %+v", got)
	}
	if strict.SubjectsRefused() != 2 || loose.SubjectsRefused() != 0 {
		t.Errorf("subjects refused: %d and %d", strict.SubjectsRefused(), loose.SubjectsRefused())
	}

	hits := whatif.Hardest([]whatif.Outcome{loose, strict}, 5)
	if len(hits) != 2 || hits[0].Subject != "bob" || hits[0].By[1].RefusedUnits != 300 || hits[0].By[0].RefusedUnits != 0 || hits[1].Subject != "alice" {
		t.Errorf("hit hardest: %+v", hits)
	}
	if hits := whatif.Hardest([]whatif.Outcome{strict, loose}, 1); len(hits) != 1 {
		t.Errorf("asked for 1, got %+v", hits)
	}

	// The weeks have no gap, and what was not decided belongs to none of them.
	weeks, course := whatif.Course([]whatif.Outcome{strict, loose})
	var keys []string
	for _, w := range weeks {
		keys = append(keys, w.Key)
	}
	if !slices.Equal(keys, []string{"2026-W22", "2026-W23", "2026-W24"}) {
		t.Errorf("weeks %v", keys)
	}
	for i, want := range [][3][2]int64{{{150, 500}, {0, 0}, {10, 0}}, {{550, 0}, {0, 0}, {10, 0}}} {
		for j, w := range course[i] {
			if w.Charged != want[j][0] || w.Refused != want[j][1] {
				t.Errorf("outcome %d, week %s: %d charged, %d refused, want %v", i, keys[j], w.Charged, w.Refused, want[j])
			}
		}
	}
}

// A replay's own windows are those of a limit; the weeks of a comparison must not depend on which
// limits there are.
func TestWeeksAddUpToTheWholeUnderSeveralLimits(t *testing.T) {
	file, err := os.ReadFile("../examples/nasa-ipsc-1993/usage.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, limits := range []string{
		"{meter: slots, units: 200}",
		"{meter: slots, name: day, window: day, units: 60}, {meter: slots, units: 200}",
		"{meter: slots, name: month, window: month in Asia/Tokyo, units: 5000}",
		"{meter: slots, units: 200, mode: shadow}",
	} {
		o := run(t, string(file), limits, limits)
		var sum replay.Tally
		for _, w := range o.Weeks {
			sum.Charged += w.Charged
			sum.RefusedUnits += w.Refused
		}
		if sum.Charged != o.Charged || sum.RefusedUnits != o.RefusedUnits || o.Asked() != 515577 || o.Rows != 18239 {
			t.Errorf("%s: weeks have %d charged and %d refused, the whole %+v", limits, sum.Charged, sum.RefusedUnits, o.Tally)
		}
	}
}

func TestACourseOfAThousandYears(t *testing.T) {
	o := run(t, "completed_at,subject,operation,quality,duration_seconds\n1000-01-01T00:00:00Z,a,1,standard,60\n2026-01-01T00:00:00Z,a,2,standard,120\n", "a", "{meter: slots, units: 200}")
	weeks, course := whatif.Course([]whatif.Outcome{o})
	if last := len(weeks) - 1; len(weeks) != 53535 || course[0][0].Charged != 1 || course[0][last].Charged != 2 || course[0][last].Window != weeks[last] {
		t.Errorf("%d weeks, %+v to %+v", len(weeks), course[0][0], course[0][len(weeks)-1])
	}
}

func TestALogThatCannotBeReadIsAnError(t *testing.T) {
	s := whatif.Scenario{Name: "free", Catalog: headroom.DefaultCatalog()}
	if _, err := whatif.Run(context.Background(), strings.NewReader("a,b\n"), "slots", s, nil); !errors.Is(err, headroom.Invalid) {
		t.Errorf("no columns: %v", err)
	}
	if _, err := whatif.Run(context.Background(), strings.NewReader(log), "minutes", s, nil); !errors.Is(err, headroom.Invalid) {
		t.Errorf("no such meter: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := whatif.Run(ctx, strings.NewReader(log), "slots", s, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
