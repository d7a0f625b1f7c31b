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

// Debt is what a charge within an organisation leaves behind until the organisation is settled. It
// is written with the charge, in one step. So it is there even if the caller dies right after.
type Debt struct {
	To    string    // the organisation, which is owed
	Cost  int64     // units
	Since time.Time // when the subject was charged, a whole second
	// Given says that Since is the time that the caller gave (Request.Now). The debt is settled at
	// it.
	Given bool
}

// String encodes the debt in one line, "30 @1779667200 <acme": the units, the time in Unix seconds,
// and who is owed, percent-encoded. If the time is the caller's, "=" takes the place of "@".
//
// Stores keep this text. ParseDebt reads it.
func (d Debt) String() string {
	mark := " @"
	if d.Given {
		mark = " ="
	}
	return strconv.FormatInt(d.Cost, 10) + mark + strconv.FormatInt(d.Since.Unix(), 10) + " <" + url.QueryEscape(d.To)
}

// ParseDebt reads what Debt.String wrote. What it cannot read is Unreadable.
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
	return Debt{}, Errorf(Unreadable, nil,
		"stored debt %q is not of a known form: a newer version of Headroom may have written it", s)
}

// OperationWithin returns the id under which an organisation knows what its user subject charges
// under operation. Users choose their ids without asking one another, so each needs an id of its
// own there.
//
// The id begins with the operation, cut to 100 bytes, for people who read it. It ends with 96 bits
// of SHA-256 over subject and operation, which keep ids apart. The name of the subject is not in
// it: a user who is forgotten leaves no name behind at the organisation.
func OperationWithin(subject, operation string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", subject, operation))
	return cutTo(operation, 100) + "~" + base64.RawURLEncoding.EncodeToString(sum[:12])
}

// cutTo returns as much of s as fits into n bytes, in whole characters.
func cutTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
