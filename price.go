package headroom

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Prices turn a class of work and its quantity into a cost: the rate of the class times the number
// of steps that have begun.
type Prices struct {
	// Step is the quantity that one rate buys, from 1 to 2^53: 60 for seconds charged by the
	// minute.
	Step int64
	// Rates are the units for each step, by class. None is negative.
	Rates map[string]int64
}

// maxQuantity is the greatest quantity up to which a float64 holds every whole number.
const maxQuantity = 1 << 53

// Cost returns rate x ceil(quantity / step), in units. It is Invalid if the class is unknown,
// if the quantity is negative, not a number or above 2^53, if the product is beyond int64, or if p
// is no valid price list.
func (p Prices) Cost(class string, quantity float64) (int64, error) {
	rate, ok := p.Rates[class]
	if !ok {
		return 0, invalid(
			"unknown class %q: the price list has %s",
			class, strings.Join(slices.Sorted(maps.Keys(p.Rates)), ", "))
	}
	// No catalog may have checked this list.
	if p.Step < 1 || p.Step > maxQuantity || rate < 0 {
		return 0, invalid(
			"class %q at rate %d for each %d: want a rate of at least 0 and a step from 1 to 2^53",
			class, rate, p.Step)
	}
	if !(quantity >= 0 && quantity <= maxQuantity) { // written so that NaN fails
		return 0, invalid("quantity %v: want a number from 0 to 2^53", quantity)
	}
	// Mod is exact, while a quotient is rounded. So a hair over a step is charged as the next one.
	rest := math.Mod(quantity, float64(p.Step))
	steps := int64(quantity-rest) / p.Step
	if rest > 0 {
		steps++
	}
	hi, lo := bits.Mul64(uint64(rate), uint64(steps))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, invalid("cost of %v of class %q is beyond int64", quantity, class)
	}
	return int64(lo), nil
}

func (p Prices) clone() Prices {
	p.Rates = maps.Clone(p.Rates)
	return p
}

func (p Prices) validate(meter string) error {
	if p.Step < 1 || p.Step > maxQuantity {
		return invalid("prices of meter %q: step %d: want 1 to 2^53", meter, p.Step)
	}
	for class, rate := range p.Rates {
		if class == "" || rate < 0 {
			return invalid(
				"prices of meter %q: class %q at rate %d: want a named class and a rate of at least 0",
				meter, class, rate)
		}
	}
	return nil
}
