package headroom

import (
	"cmp"
	"log/slog"
	"time"
)

// Options are the settings of an Engine. The zero value is a good one.
type Options struct {
	Clock      func() time.Time // the host's clock, a first guess that the store's own time corrects. Nil: time.Now
	Horizon    time.Duration    // how long operation ids are remembered, in whole minutes, in meters for which the catalog gives no time. Zero: see Catalog.WithMemory. Changed, it holds for what is charged once every engine has it; what was charged before is remembered as was promised then
	Logger     *slog.Logger     // hears of debts that are dropped, since they are older than ids are remembered. Nil: slog.Default()
	LetThrough bool             // Preflight answers "allowed, unchecked" where the store fails. Deduct never does
}

// Engine decides who may spend and records what was spent. It holds no state of its own beside its store: any number of engines, in any number of processes, may share one store that allows it.
type Engine struct {
	store Store
	rules rules
	opts  Options
}

// New returns an engine on a store, by the plans of a catalog. Where the store has a method MostLimits() int, that
// is how many limits of one meter all plans together may have, and Invalid names it.
func New(store Store, catalog *Catalog, opts Options) (*Engine, error) {
	if store == nil || catalog == nil {
		return nil, invalid("an engine needs a store and a catalog")
	}
	if store, ok := store.(interface{ MostLimits() int }); ok {
		if err := catalog.checkMostLimits(store.MostLimits()); err != nil {
			return nil, err
		}
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if opts.Horizon != 0 {
		var err error
		if catalog, err = catalog.WithMemory(opts.Horizon, catalog.memory); err != nil {
			return nil, err
		}
	}
	return &Engine{store: store, rules: rules{catalog: catalog}, opts: opts}, nil
}

func (e *Engine) validate(r Request, operation bool) error {
	if err := checkText("subject", r.Subject, MaxSubject); err != nil {
		return err
	}
	if err := e.checkMeter(r.Meter); err != nil {
		return err
	}
	if operation {
		if err := checkText("operation id", r.Operation, MaxOperation); err != nil {
			return err
		}
	}
	if r.Cost < 0 {
		return invalid("cost %d: want at least 0", r.Cost)
	}
	if r.Over > RecordOverLimit {
		return invalid("unknown policy %d", r.Over)
	}
	if err := cmp.Or(checkTime(r.Now), checkTime(r.Began)); err != nil {
		return err
	}
	// Whether the catalog has r.Plan matters only where no plan is stored: look finds out.
	return nil
}

func (e *Engine) checkMeter(meter string) error {
	if err := checkName("meter", meter); err != nil {
		return err
	}
	if _, ok := e.rules.catalog.counters[meter]; !ok {
		return invalid("unknown meter %q: no plan limits it", meter)
	}
	return nil
}
