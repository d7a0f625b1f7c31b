package headroom

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Prices turns a class of work and its quantity into a cost: the rate of the class times the number of steps begun.
type Prices struct {
	Step  int64            // quantity that one rate buys, at least 1: 60 for seconds charged by the minute
	Rates map[string]int64 // units a step, by class; none is negative
}

// maxQuantity is the greatest quantity for which a float64 still tells neighbouring whole numbers apart.
const maxQuantity = 1 << 53

// Cost returns rate x ceil(quantity / step) in units. It is an ErrInvalid if the class is unknown, the quantity is negative, not a number or above 2^53, or the product is beyond int64.
func (p Prices) Cost(class string, quantity float64) (int64, error) {
	rate, ok := p.Rates[class]
	if !ok {
		return 0, invalid("unknown class %q: the price list has %s", class, strings.Join(slices.Sorted(maps.Keys(p.Rates)), ", "))
	}
	if !(quantity >= 0 && quantity <= maxQuantity) { // written so that NaN fails
		return 0, invalid("quantity %v: want a number from 0 to 2^53", quantity)
	}
	// Mod is exact where a quotient is rounded, so that a hair over a step is charged as the next one.
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

func (p Prices) validate(meter string) error {
	if p.Step < 1 {
		return invalid("prices of meter %q: step %d: want at least 1", meter, p.Step)
	}
	for class, rate := range p.Rates {
		if class == "" || rate < 0 {
			return invalid("prices of meter %q: class %q at rate %d: want a named class and a rate of at least 0", meter, class, rate)
		}
	}
	return nil
}
