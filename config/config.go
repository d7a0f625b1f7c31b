// Package config reads headroom.yaml: plans with their limits, prices by meter, how long operation
// ids are remembered, and the names of the attributes in DynamoDB. Whatever is wrong in it is an
// *Error with the line and the column. What a file leaves out is as in Default.
//
// The file examples/headroom.yaml documents each key.
package config

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/lumcast/headroom"
)

// Config is what a file says.
type Config struct {
	Catalog  *headroom.Catalog
	Prices   map[string]headroom.Prices // those of the Catalog, by meter
	DynamoDB DynamoDB
	Embedded Embedded
}

// Embedded says how state lies in the rows of the embedded store.
type Embedded struct {
	// Format is the format in which rows are written, see embedded.Options, which says which there
	// are. 0: the newest.
	Format int
}

// DynamoDB says where state lies in the items of a table. An empty string is the default of package
// dynamostore.
type DynamoDB struct {
	Meter string // the meter that lies in the attributes Window and Count
	Limit string // the limit of that meter that lies there

	// Format is the layout that items are written in: see dynamostore.Options, which says which there
	// are. 0: the newest.
	Format int

	// Names of attributes.
	Subject string // the partition key
	Window  string // the window's key
	Count   string // the units in that window
	Plan    string // the subject's plan
	Prefix  string // begins the name of each other attribute
}

// Default is what holds without a file: the catalog headroom.DefaultCatalog.
func Default() *Config {
	c := &Config{Catalog: headroom.DefaultCatalog(), Prices: map[string]headroom.Prices{}}
	if slots, err := c.Catalog.Prices("slots"); err == nil {
		c.Prices["slots"] = slots
	}
	return c
}

// Load reads a file.
func Load(path string) (*Config, error) {
	text, err := read(path)
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, headroom.Errorf(headroom.Invalid, err, "the configuration %s cannot be read", path)
	}
	return Parse(path, text)
}

// mostBytes bounds a configuration. It has room for more than 20,000 plans.
const mostBytes = 4 << 20

// read reads a file, or as much of it as shows that it is too long.
func read(path string) (text []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, mostBytes+1))
}

// Parse reads the text of a file; name stands in errors.
func Parse(name string, text []byte) (*Config, error) {
	d := &document{file: name, source: string(text)}
	root, err := d.parse()
	if err != nil {
		return nil, err
	}
	r := reading{document: d, config: Default()}
	if err := r.root(root); err != nil {
		return nil, err
	}
	return r.config, nil
}

// reading is a file half understood.
type reading struct {
	*document
	config   *Config
	plans    []headroom.Plan
	steps    []step
	fallback string
	horizon  time.Duration              // of all meters; zero: not given
	memory   map[string]headroom.Memory // by meter
}

func (r *reading) root(root ast.Node) error {
	if root == nil {
		return nil
	}
	r.plans, r.fallback = r.config.Catalog.Plans(), r.config.Catalog.Default()
	var fallback, plans, meters ast.Node
	err := r.keys(root, map[string]func(ast.Node) error{
		"default_plan": func(n ast.Node) (err error) { fallback = n; r.fallback, err = r.text(n); return err },
		"plans":        func(n ast.Node) error { plans = n; return r.allPlans(n) },
		"prices":       r.allPrices,
		"horizon":      func(n ast.Node) (err error) { r.horizon, err = r.duration(n); return err },
		"meters":       func(n ast.Node) error { meters = n; return r.allMeters(n) },
		"dynamodb":     r.dynamodb,
		"embedded": func(n ast.Node) error {
			return r.keys(n, map[string]func(ast.Node) error{"format": r.format(&r.config.Embedded.Format)})
		},
	})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(r.plans, func(p headroom.Plan) bool { return p.Name == r.fallback }) {
		if fallback == nil {
			return r.fault(plans, "default_plan is not given, and there is no plan %q", r.fallback)
		}
		return r.fault(fallback, "there is no plan %q", r.fallback)
	}
	r.config.Catalog, err = headroom.NewCatalog(r.fallback, r.plans, r.config.Prices)
	if err != nil {
		return r.fault(root, "%v", err)
	}
	if r.config.Catalog, err = r.config.Catalog.WithMemory(r.horizon, r.memory); err != nil {
		return r.fault(meters, "%v", err)
	}
	return nil
}

// allMeters reads what holds for a meter in every plan.
func (r *reading) allMeters(n ast.Node) error {
	r.memory = map[string]headroom.Memory{}
	return r.entries(n, "a meter", func(meter string, n ast.Node) error {
		return r.keys(n, map[string]func(ast.Node) error{
			"remember": func(n ast.Node) error {
				if text, err := r.text(n); err == nil && text == "none" {
					r.memory[meter] = headroom.Memory{None: true}
					return nil
				}
				horizon, err := r.duration(n)
				r.memory[meter] = headroom.Memory{Horizon: horizon}
				return err
			},
		}, "remember")
	})
}

func (r *reading) allPlans(n ast.Node) error {
	r.plans, r.steps = nil, nil
	err := r.entries(n, "a plan", func(name string, n ast.Node) error {
		r.plans = append(r.plans, headroom.Plan{Name: name})
		plan := &r.plans[len(r.plans)-1]
		r.steps = append(r.steps, step{n, len(r.plans), 0})
		return r.keys(n, map[string]func(ast.Node) error{
			"limits": func(n ast.Node) error {
				return r.items(n, func(n ast.Node) error {
					limit, err := r.limit(n)
					if err != nil {
						return err
					}
					plan.Limits = append(plan.Limits, limit)
					r.steps = append(r.steps, step{n, len(r.plans), len(plan.Limits)})
					return nil
				})
			},
		}, "limits")
	})
	return cmp.Or(r.wrongStep(), err) // what it finds stands before err in the file
}

// step is how much of the plans had been read after a plan's name or one of its limits.
type step struct {
	node   ast.Node
	plans  int
	limits int // of the last of the plans
}

// wrongStep finds the first step after which the plans are wrong, and returns what is wrong there.
// What is wrong stays wrong, whatever follows. So few of the steps need to be tried.
func (r *reading) wrongStep() error {
	after := func(s step) error {
		plans := slices.Clone(r.plans[:s.plans])
		last := &plans[s.plans-1]
		last.Limits = last.Limits[:s.limits]
		return r.check(s.node, plans, nil)
	}
	last := len(r.steps) - 1
	if last < 0 || after(r.steps[last]) == nil {
		return nil
	}
	return after(r.steps[sort.Search(last, func(i int) bool { return after(r.steps[i]) != nil })])
}

func (r *reading) limit(n ast.Node) (headroom.Limit, error) {
	// What a limit leaves out is as in the only one of the built-in plan.
	l := headroom.DefaultCatalog().Plans()[0].Limits[0]
	err := r.keys(n, map[string]func(ast.Node) error{
		"meter": func(n ast.Node) (err error) { l.Meter, err = r.text(n); return err },
		"name":  func(n ast.Node) (err error) { l.Name, err = r.text(n); return err },
		"window": func(n ast.Node) error {
			name, err := r.text(n)
			if err != nil {
				return err
			}
			if l.Period, err = headroom.ParsePeriod(name); err != nil {
				return r.fault(n, "%v", err)
			}
			return nil
		},
		"units":      func(n ast.Node) (err error) { l.Units, err = r.amount(n, 0); return err },
		"mode":       func(n ast.Node) (err error) { l.Mode, err = r.mode(n); return err },
		"max_holds":  func(n ast.Node) (err error) { l.MaxHolds, err = r.amount(n, 1); return err },
		"carry_over": func(n ast.Node) (err error) { l.CarryOver, err = r.amount(n, 0); return err },
		"thresholds": func(n ast.Node) (err error) { l.Thresholds, err = r.thresholds(n); return err },
	}, "meter", "units")
	return l, err
}

func (r *reading) mode(n ast.Node) (headroom.Mode, error) {
	name, err := r.text(n)
	if err != nil {
		return 0, err
	}
	for _, m := range []headroom.Mode{headroom.Hard, headroom.Soft, headroom.Shadow} {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, r.fault(n,
		"unknown mode %q: want hard (refuse what goes past the limit), soft (admit it and say so) or shadow (count and report only)",
		name)
}

// thresholds reads rising percents. An empty list asks for no notices.
func (r *reading) thresholds(n ast.Node) ([]int, error) {
	var percents []int
	err := r.items(n, func(n ast.Node) error {
		percent, err := r.amount(n, 1)
		switch {
		case err != nil:
			return err
		case percent > headroom.MaxThreshold:
			return r.fault(n, "%d: want at most %d percent", percent, headroom.MaxThreshold)
		case len(percents) > 0 && int(percent) <= percents[len(percents)-1]:
			return r.fault(n, "%d after %d: want rising percents", percent, percents[len(percents)-1])
		}
		percents = append(percents, int(percent))
		return nil
	})
	return percents, err
}

func (r *reading) allPrices(n ast.Node) error {
	r.config.Prices = map[string]headroom.Prices{}
	return r.entries(n, "a meter", func(meter string, n ast.Node) error {
		p := headroom.Prices{Step: 1, Rates: map[string]int64{}}
		err := r.keys(n, map[string]func(ast.Node) error{
			"step": func(n ast.Node) (err error) { p.Step, err = r.amount(n, 1); return err },
			"rates": func(n ast.Node) error {
				return r.entries(n, "a class", func(class string, n ast.Node) (err error) {
					p.Rates[class], err = r.amount(n, 0)
					return err
				})
			},
		}, "rates")
		if err != nil {
			return err
		}
		r.config.Prices[meter] = p
		return r.check(n, []headroom.Plan{{Name: "any"}}, r.config.Prices)
	})
}

// check lets the constructor that has the last word judge what has been read so far, while it is
// known where that stands in the file.
func (r *reading) check(n ast.Node, plans []headroom.Plan, prices map[string]headroom.Prices) error {
	if _, err := headroom.NewCatalog(plans[0].Name, plans, prices); err != nil {
		return r.fault(n, "%v", err)
	}
	return nil
}

// duration reads how long ids are remembered: in days ("15d", "15 days"), or in hours and minutes
// as Go writes them ("360h").
func (r *reading) duration(n ast.Node) (time.Duration, error) {
	text, err := r.text(n)
	if err != nil {
		return 0, err
	}
	d, err := ParseDuration(text)
	if err != nil || d < time.Minute || d > headroom.MaxHorizon || d%time.Minute != 0 {
		return 0, r.fault(n, "%q: want whole minutes, from 1m to %dd: 15d, 360h or 90m", text,
			headroom.MaxHorizon/(24*time.Hour))
	}
	return d, nil
}

func (r *reading) dynamodb(n ast.Node) error {
	c := &r.config.DynamoDB
	return r.keys(n, map[string]func(ast.Node) error{
		"meter":  r.name(&c.Meter),
		"limit":  r.name(&c.Limit),
		"format": r.format(&c.Format),
		"attributes": func(n ast.Node) error {
			return r.keys(n, map[string]func(ast.Node) error{
				"subject": r.name(&c.Subject),
				"window":  r.name(&c.Window),
				"count":   r.name(&c.Count),
				"plan":    r.name(&c.Plan),
				"prefix":  r.name(&c.Prefix),
			})
		},
	})
}

// format returns a reader of the number of a format into to.
func (r *reading) format(to *int) func(ast.Node) error {
	return func(n ast.Node) error {
		format, err := r.amount(n, 1)
		if format > math.MaxInt32 {
			return r.fault(n, "%d is no format", format)
		}
		*to = int(format)
		return err
	}
}

// name returns a reader of a name into to.
func (r *reading) name(to *string) func(ast.Node) error {
	return func(n ast.Node) (err error) { *to, err = r.text(n); return err }
}

// sortedKeys lists the keys of m for a message.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
