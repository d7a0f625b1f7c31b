package headroom

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Debt is what a charge within an organisation leaves until the organisation is settled. It is
// written with the charge, in one step, so that a caller who dies in between leaves it behind.
type Debt struct {
	To    string    // who is owed: the organisation
	Cost  int64     // units
	Since time.Time // when the subject was charged, a whole second
	Given bool      // Since is the caller's time (Request.Now), and the debt is settled at it
}

// String encodes the debt in one line, "30 @1779667200 <acme": the units, since when in Unix seconds
// ("=" in place of "@": the caller's time), and who is owed, percent-encoded.
//
// Stores keep this text; ParseDebt reads it.
func (d Debt) String() string {
	mark := " @"
	if d.Given {
		mark = " ="
	}
	return strconv.FormatInt(d.Cost, 10) + mark + strconv.FormatInt(d.Since.Unix(), 10) + " <" + url.QueryEscape(d.To)
}

// ParseDebt reads what Debt.String wrote. What it cannot read is an ErrFormat.
func ParseDebt(s string) (Debt, error) {
	parts := strings.Split(s, " ")
	if p := (recordParser{ok: len(parts) == 3}); p.ok && parts[1] != "" {
		mark, since := parts[1][:1], parts[1][1:]
		to, named := strings.CutPrefix(parts[2], "<")
		d := Debt{To: p.id(to), Cost: p.units(parts[0]), Since: p.time(since), Given: mark == "="}
		if p.ok && named && (mark == "@" || d.Given) {
			return d, nil
		}
	}
	return Debt{}, Errorf(CodeFormat, nil, "stored debt %q is not of a known form: a newer version of Headroom may have written it", s)
}

// OperationWithin is the id at an organisation of what its user subject charges under operation: users
// choose their ids without asking one another. It begins with the operation for whoever reads it, cut
// to 100 bytes. What keeps them apart are 96 bits of SHA-256 over the two, at its end. The subject's name
// is not in it: who is forgotten leaves none behind at the organisation.
func OperationWithin(subject, operation string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", subject, operation))
	return cutTo(operation, 100) + "~" + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// cutTo is what of s fits into n bytes, in whole characters.
func cutTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
