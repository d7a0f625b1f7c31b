package headroom

import (
	"cmp"
	"log/slog"
	"slices"
	"time"
)

// Options are the settings of an Engine. The zero value is a good one.
type Options struct {
	// Clock is the host's clock. It only gives a first guess, which the store's own time corrects.
	// Nil: time.Now.
	Clock func() time.Time
	// Horizon is how long operation ids are remembered, in whole minutes, in meters for which the
	// catalog says nothing. Zero: see Catalog.WithMemory.
	//
	// A changed horizon holds for what is charged once every engine has it. What was charged before
	// is remembered for as long as was promised then.
	Horizon time.Duration
	// Logger is told about debts that are dropped, since they are older than ids are remembered.
	// Nil: slog.Default().
	Logger *slog.Logger
	// LetThrough has Preflight answer "allowed, unchecked" if the store fails. Deduct never does.
	LetThrough bool
}

// Engine decides who may spend, and records what was spent. It keeps nothing outside its store. So
// any number of engines, in any number of processes, may share a store that allows it.
type Engine struct {
	store Store
	rules rules
	opts  Options
}

// New returns an engine on a store, by the plans of a catalog.
//
// If the store has a method MostLimits() int, that is how many limits one meter may have, in all
// plans together. New returns Invalid if a meter has more.
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

// validate checks what can be checked without the store. named says that the request needs an
// operation id.
func (e *Engine) validate(r Request, named bool) error {
	if err := checkText("subject", r.Subject, MaxSubject); err != nil {
		return err
	}
	if err := e.checkMeter(r.Meter); err != nil {
		return err
	}
	if named {
		if err := checkText("operation id", r.Operation, MaxOperation); err != nil {
			return err
		}
	}
	if r.Cost < 0 {
		return invalid("cost %d: want at least 0", r.Cost)
	}
	if err := e.validateMore(r); err != nil {
		return err
	}
	if r.Over > RecordOverLimit {
		return invalid("unknown policy %d", r.Over)
	}
	if err := checkAtLeast(r); err != nil {
		return err
	}
	if err := cmp.Or(checkTime(r.Now), checkTime(r.Began)); err != nil {
		return err
	}
	// It matters only for a subject without a stored plan whether the catalog has r.Plan. The
	// decision finds out.
	return nil
}

// checkAtLeast checks the least that a request takes, and that what it asks beside goes with that.
func checkAtLeast(r Request) error {
	switch {
	case r.AtLeast == 0:
		return nil
	case r.AtLeast < 0 || r.AtLeast > r.Cost:
		return invalid("at least %d of %d: want at least 0, and at most the cost", r.AtLeast, r.Cost)
	case len(r.More) > 0:
		return invalid("at least %d: as much as fits is for one meter; ask for several meters whole", r.AtLeast)
	case r.Over == RecordOverLimit:
		return invalid("at least %d: what is recorded past the limit is charged whole; leave one of the two out", r.AtLeast)
	}
	return nil
}

// wholeCost returns an error if a request that must be charged whole takes less.
func wholeCost(what string, r Request) error {
	if r.AtLeast == 0 {
		return nil
	}
	return invalid("at least %d: a %s is charged whole; give its cost alone", r.AtLeast, what)
}

// validateMore checks the other meters of a request, and that the store joins them.
func (e *Engine) validateMore(r Request) error {
	if len(r.More) == 0 {
		return nil
	}
	keys, limits := []Key{r.key()}, len(e.rules.catalog.counters[r.Meter])
	for _, more := range r.More {
		if err := e.checkMeter(more.Meter); err != nil {
			return err
		}
		key := Key{Subject: r.Subject, Meter: more.Meter}
		if slices.Contains(keys, key) {
			return invalid("meter %q is asked for twice: give its units once", more.Meter)
		}
		if more.Cost < 0 {
			return invalid("cost %d of meter %q: want at least 0", more.Cost, more.Meter)
		}
		keys, limits = append(keys, key), limits+len(e.rules.catalog.counters[more.Meter])
	}
	store, ok := e.store.(Joiner)
	if !ok {
		return invalid("this store does not change several meters in one step: ask for one meter at a time")
	}
	return store.Joins(keys, limits)
}

// needsID reports whether one of the meters of r needs an operation id.
func (e *Engine) needsID(r Request) bool {
	return slices.ContainsFunc(r.parts(), func(p Request) bool { return e.rules.catalog.NeedsID(p.Meter) })
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
