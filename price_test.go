package headroom_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/lumcast/headroom"
)

func TestCostIsRateTimesStepsBegun(t *testing.T) {
	lumcast, err := headroom.DefaultCatalog().Prices("slots")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		class    string
		quantity float64
		cost     int64
	}{
		{"standard", 0, 0}, {"generative", 0, 0}, {"standard", math.Copysign(0, -1), 0},
		{"standard", 1, 1}, {"standard", 59, 1}, {"standard", 60, 1}, {"standard", 61, 2}, {"standard", 120, 2}, {"standard", 121, 3},
		{"neural", 900, 30}, {"generative", 900, 60}, {"generative", 901, 64}, {"neural", 0.5, 2},
		// A hair over a step begins the next one.
		{"standard", math.Nextafter(60, 61), 2}, {"standard", math.Nextafter(60, 0), 1}, {"standard", math.SmallestNonzeroFloat64, 1}, {"standard", math.Nextafter(6e9, 7e9), 1e8 + 1},
		// Quotients that no float64 holds.
		{"standard", 1 << 53, 150119987579017}, {"standard", 1<<53 - 1, 150119987579017}, {"standard", 1<<53 - 32, 150119987579016},
	} {
		if got, err := lumcast.Cost(c.class, c.quantity); err != nil || got != c.cost {
			t.Errorf("cost of %v of %s: %d, %v: want %d", c.quantity, c.class, got, err, c.cost)
		}
	}
	for _, c := range []struct {
		step, rate int64
		quantity   float64
		cost       int64
	}{
		{1, 1, 1 << 53, 1 << 53}, {1, 1023, 1 << 53, 1023 << 53}, {1 << 53, 7, 1 << 53, 7}, {1 << 53, 7, 1, 7}, {1 << 53, 7, 0, 0}, {1, 0, 1 << 53, 0}, {1, math.MaxInt64, 1, math.MaxInt64}, {7, math.MaxInt64, 7, math.MaxInt64},
		{3, 1, 1<<53 - 1, 3002399751580331}, {10, 1, 0.1, 1}, {1, 1, 0.1 + 0.2, 1},
	} {
		p := headroom.Prices{Step: c.step, Rates: map[string]int64{"x": c.rate}}
		if got, err := p.Cost("x", c.quantity); err != nil || got != c.cost {
			t.Errorf("cost of %v at %d for each %d: %d, %v: want %d", c.quantity, c.rate, c.step, got, err, c.cost)
		}
	}
}

func TestCostOfBadInputIsAnError(t *testing.T) {
	p := headroom.Prices{Step: 60, Rates: map[string]int64{"standard": 1, "dear": math.MaxInt64, "": 1}}
	for _, c := range []struct {
		class    string
		quantity float64
	}{
		{"standard", -1}, {"standard", -math.SmallestNonzeroFloat64}, {"standard", math.NaN()}, {"standard", math.Inf(1)}, {"standard", math.Inf(-1)},
		{"standard", math.Nextafter(1<<53, math.Inf(1))}, {"standard", math.MaxFloat64}, {"standard", 1 << 63},
		{"Standard", 1}, {"nonesuch", 1}, {"nonesuch", 0},
		{"dear", 61}, {"dear", 1 << 53},
	} {
		if got, err := p.Cost(c.class, c.quantity); !errors.Is(err, headroom.Invalid) || got != 0 {
			t.Errorf("cost of %v of %q: %d, %v: want an error", c.quantity, c.class, got, err)
		}
	}
	for _, step := range []int64{0, -60, math.MinInt64, 1<<53 + 1, math.MaxInt64} {
		p.Step = step
		if got, err := p.Cost("standard", 60); !errors.Is(err, headroom.Invalid) || got != 0 {
			t.Errorf("cost at a step of %d: %d, %v: want an error", step, got, err)
		}
	}
}

// TestCostIsExact compares with arithmetic of unbounded precision.
func TestCostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step, rate := rapid.Int64Range(1, 1<<53).Draw(t, "step"), rapid.Int64Min(0).Draw(t, "rate")
		quantity := rapid.OneOf(rapid.Float64Range(0, 1<<53), rapid.Float64Range(0, 1e6), rapid.Custom(func(t *rapid.T) float64 {
			whole := float64(step) * float64(rapid.Int64Range(0, (1<<53)/step).Draw(t, "steps"))
			return rapid.SampledFrom([]float64{whole, math.Nextafter(whole, math.Inf(1)), max(0, math.Nextafter(whole, 0))}).Draw(t, "hair")
		})).Filter(func(q float64) bool { return q <= 1<<53 }).Draw(t, "quantity")
		want := exactCost(step, rate, quantity)
		got, err := headroom.Prices{Step: step, Rates: map[string]int64{"x": rate}}.Cost("x", quantity)
		if want.IsInt64() != (err == nil) || err == nil && got != want.Int64() {
			t.Fatalf("cost of %v at %d for each %d: %d, %v: want %s", quantity, rate, step, got, err, want)
		}
	})
}

// exactCost is rate x ceil(quantity / step), in arithmetic of unbounded precision.
func exactCost(step, rate int64, quantity float64) *big.Int {
	steps := new(big.Rat).SetFloat64(quantity)
	steps.Quo(steps, new(big.Rat).SetInt64(step))
	whole, rest := new(big.Int).QuoRem(steps.Num(), steps.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Mul(whole, big.NewInt(rate))
}

// FuzzCost holds that a cost is exact, or that there is an error: for input that is out of bounds,
// and for a cost that no int64 holds.
func FuzzCost(f *testing.F) {
	f.Add(int64(60), int64(4), 901.0)
	f.Add(int64(1), int64(math.MaxInt64), 1.0)
	f.Add(int64(1)<<53, int64(1024), float64(1<<53))
	f.Add(int64(3), int64(1), 0.30000000000000004)
	f.Add(int64(7), int64(1)<<60, math.Nextafter(49, 50))
	f.Add(int64(0), int64(-1), math.NaN())
	f.Add(int64(1), int64(1), math.Inf(1))
	f.Add(int64(1), int64(1), -math.SmallestNonzeroFloat64)
	f.Fuzz(func(t *testing.T, step, rate int64, quantity float64) {
		got, err := headroom.Prices{Step: step, Rates: map[string]int64{"x": rate}}.Cost("x", quantity)
		good := step >= 1 && step <= 1<<53 && rate >= 0 && quantity >= 0 && quantity <= 1<<53
		if good {
			want := exactCost(step, rate, quantity)
			if good = want.IsInt64(); good && got != want.Int64() {
				t.Errorf("%v at %d for each %d costs %d, want %s", quantity, rate, step, got, want)
			}
		}
		if good != (err == nil) || err != nil && (got != 0 || !errors.Is(err, headroom.Invalid)) {
			t.Errorf("%v at %d for each %d: %d, %v", quantity, rate, step, got, err)
		}
	})
}
