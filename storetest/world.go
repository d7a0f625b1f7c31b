package storetest

import (
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

// base is when a test begins. It is a Tuesday, and so far ahead of today that no database deletes a
// row because its time to live is over.
var base = time.Date(2031, time.May, 27, 10, 0, 0, 0, time.UTC)

// monday is the turn of the week after base.
var monday = time.Date(2031, time.June, 2, 0, 0, 0, 0, time.UTC)

const (
	day     = 24 * time.Hour
	week    = 7 * day
	year    = 364 * day
	horizon = headroom.DefaultHorizon
	meter   = "slots"
)

// world is the surroundings of one test: a store and the time.
type world struct {
	*testing.T
	h     Harness
	store headroom.Store
	clock atomic.Pointer[time.Time]
	lie   atomic.Pointer[func(time.Time) time.Time] // changes what a reading shows
}

func newWorld(t *testing.T, h Harness) *world {
	w := &world{T: t, h: h}
	w.set(base)
	w.store = h.Open(t, w.now)
	return w
}

// Run runs f as a subtest. Until f ends, a failure of the world is a failure of the subtest.
func (w *world) Run(name string, f func(*testing.T)) bool {
	outer := w.T
	defer func() { w.T = outer }()
	return outer.Run(name, func(t *testing.T) {
		w.T = t
		f(t)
	})
}

func (w *world) now() time.Time {
	t := *w.clock.Load()
	if lie := w.lie.Load(); lie != nil {
		t = (*lie)(t)
	}
	return t
}

func (w *world) set(t time.Time) { w.clock.Store(&t) }

// back sets the clock to t after it was wrong. A store that cannot tell which reading was wrong is
// told to accept it.
func (w *world) back(t time.Time) {
	w.Helper()
	w.set(t)
	if w.h.HostClock {
		if err := w.h.Accept(w.Context(), w.store); err != nil {
			w.Fatalf("accept the clock: %v", err)
		}
	}
}

// catalog returns a catalog with the default plan "free" of so many units a week, and more plans.
func (w *world) catalog(units int64, more ...headroom.Plan) *headroom.Catalog {
	w.Helper()
	plans := append([]headroom.Plan{weekly("free", units)}, more...)
	c, err := headroom.NewCatalog("free", plans, nil)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// limited returns a catalog with one plan, "free", that has these limits.
func (w *world) limited(limits ...headroom.Limit) *headroom.Catalog {
	w.Helper()
	c, err := headroom.NewCatalog("free", []headroom.Plan{{Name: "free", Limits: limits}}, nil)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// weekly is a plan with one limit, by the week.
func weekly(name string, units int64) headroom.Plan {
	return headroom.Plan{Name: name, Limits: []headroom.Limit{{Meter: meter, Name: "week", Units: units}}}
}

func (w *world) engine(store headroom.Store, c *headroom.Catalog, o headroom.Options) *headroom.Engine {
	w.Helper()
	if o.Clock == nil {
		o.Clock = w.now
	}
	e, err := headroom.New(store, c, o)
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// accountOn returns a new subject on the catalog's default plan "free", which allows so many units
// a week.
func (w *world) accountOn(c *headroom.Catalog, units int64) account {
	w.Helper()
	return account{
		w: w, catalog: c, engine: w.engine(w.store, c, headroom.Options{}), subject: "s" + rand.Text()[:10],
		meter: meter, plan: "free", limit: units,
	}
}

// text shows every field of a decision except its Limits.
func text(d headroom.Decision) string {
	verb, replay := "refused", ""
	if d.Allowed {
		verb = "allowed"
	}
	if d.Replay {
		replay = "replay, "
	}
	s := fmt.Sprintf("%s (%s%s) %d on plan %q: %d used and %d held of %d by %q, %d left, in %s", verb, replay,
		d.Reason, d.Cost, d.Plan, d.Used, d.Held, d.Limit, d.LimitName, d.Remaining, span(d.Window))
	if d.Unremembered {
		s += ", not remembered"
	}
	if d.Granted != 0 {
		s += fmt.Sprintf(", %d granted", d.Granted)
	}
	for _, n := range d.Crossed {
		s += fmt.Sprintf(", crossed %d%% of %q in %s (notice %s)", n.Percent, n.Limit, span(n.Window), n.ID)
	}
	return s
}

// full shows every field of a decision.
func full(d headroom.Decision) string {
	s := text(d)
	if d.Live || !d.Expires.IsZero() {
		s += fmt.Sprintf("; held until %s (%t)", short(d.Expires), d.Live)
	}
	if d.Unseen {
		s += "; unseen"
	}
	for _, l := range d.Limits {
		s += "; " + limitText(l)
	}
	return s
}

func limitText(l headroom.LimitState) string {
	s := fmt.Sprintf("%s: %d used and %d held of %d, %d left, in %s", l.Name, l.Used, l.Held, l.Limit, l.Remaining, span(l.Window))
	if l.Mode != headroom.Hard {
		s = l.Mode.String() + " " + s
	}
	if l.Over {
		s += " (over)"
	}
	return s
}

func span(w headroom.Window) string {
	return fmt.Sprintf("%s (%s to %s)", w.Key, w.Start.UTC().Format(time.RFC3339), w.End.UTC().Format(time.RFC3339))
}

func usageText(all ...headroom.LimitUsage) (s string) {
	for _, l := range all {
		s += limitText(l.LimitState)
		for _, t := range l.History {
			s += fmt.Sprintf("; %d in %s", t.Units, span(t.Window))
			if t.Unknown {
				s += " (unknown)"
			}
		}
	}
	return s
}
