package memdynamo

import (
	"math/big"
	"strconv"
	"strings"
)

// A number is decimal. It has up to 38 significant digits and a magnitude from 1E-130 to 9.99E+125
// (developer guide, "Naming rules and data types"). It has one canonical text, which has no
// exponent and no needless zeros.
const (
	mostDigits   = 38
	mostExponent = 125
	lowExponent  = -130
)

// decimal is coefficient * 10^exponent.
type decimal struct {
	coefficient *big.Int
	exponent    int
}

// canonical returns the canonical text of a number.
func canonical(text string) (string, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.FormatInt(n, 10), nil
	}
	d, err := parseDecimal(text)
	if err != nil {
		return "", err
	}
	return d.text()
}

func parseDecimal(text string) (decimal, error) {
	bad := invalid("The parameter cannot be converted to a numeric value: %s", text)
	mantissa, exponent, scientific := strings.Cut(strings.ToLower(text), "e")
	d := decimal{}
	if scientific {
		n, err := strconv.Atoi(exponent)
		if err != nil || n > 1000 || n < -1000 {
			return d, bad
		}
		d.exponent = n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.exponent -= len(fraction)
	digits := strings.TrimLeft(whole, "+-") + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" ||
		len(whole)-len(strings.TrimLeft(whole, "+-")) > 1 {
		return d, bad
	}
	d.coefficient, _ = new(big.Int).SetString(digits, 10)
	if whole != "" && whole[0] == '-' {
		d.coefficient.Neg(d.coefficient)
	}
	return d, nil
}

func (d decimal) text() (string, error) {
	digits := d.coefficient.String()
	digits, negative := strings.CutPrefix(digits, "-")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return "0", nil
	}
	exponent := d.exponent + len(digits) - len(short)
	magnitude := exponent + len(short) - 1
	switch {
	case len(short) > mostDigits:
		return "", invalid("Attempting to store more than 38 significant digits in a Number")
	case magnitude > mostExponent:
		return "", invalid(
			"Number overflow. Attempting to store a number with magnitude larger than supported range")
	case magnitude < lowExponent:
		return "", invalid(
			"Number underflow. Attempting to store a number with magnitude smaller than supported range")
	}
	var text string
	switch point := len(short) + exponent; {
	case exponent >= 0:
		text = short + strings.Repeat("0", exponent)
	case point > 0:
		text = short[:point] + "." + short[point:]
	default:
		text = "0." + strings.Repeat("0", -point) + short
	}
	if negative {
		text = "-" + text
	}
	return text, nil
}

// aligned returns the coefficients of two canonical numbers for the lower of their exponents.
func aligned(a, b string) (x, y *big.Int, exponent int) {
	// Canonical numbers parse.
	p, _ := parseDecimal(a)
	q, _ := parseDecimal(b)
	exponent = min(p.exponent, q.exponent)
	scale := func(d decimal) *big.Int {
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(d.exponent-exponent)), nil)
		return power.Mul(power, d.coefficient)
	}
	return scale(p), scale(q), exponent
}

// small returns two canonical numbers if both are whole, and so small that their sum and difference
// have 64 bits.
func small(a, b string) (x, y int64, ok bool) {
	const most = 18 // digits and sign
	if len(a) > most || len(b) > most {
		return 0, 0, false
	}
	x, err1 := strconv.ParseInt(a, 10, 64)
	y, err2 := strconv.ParseInt(b, 10, 64)
	return x, y, err1 == nil && err2 == nil
}

// sum returns a + sign*b of canonical numbers.
func sum(a, b string, sign int64) (string, error) {
	if x, y, ok := small(a, b); ok {
		return strconv.FormatInt(x+sign*y, 10), nil
	}
	x, y, exponent := aligned(a, b)
	return decimal{x.Add(x, y.Mul(y, big.NewInt(sign))), exponent}.text()
}

// compareNumbers is -1, 0 or 1 as a is less than, equal to or greater than b.
func compareNumbers(a, b string) int {
	if x, y, ok := small(a, b); ok {
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}
	x, y, _ := aligned(a, b)
	return x.Cmp(y)
}
