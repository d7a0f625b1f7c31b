package headroom_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lumcast/headroom"
)

func TestErrorsMatchTheirCode(t *testing.T) {
	cause := errors.New("the cause")
	err := error(headroom.Errorf(headroom.Throttled, cause, "slow down, %s", "please"))
	if err.Error() != "slow down, please: the cause" || !errors.Is(err, headroom.Throttled) || errors.Is(err, headroom.Unavailable) || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if err := headroom.Errorf(headroom.Invalid, nil, "wrong"); err.Error() != "wrong" || err.Unwrap() != nil || errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}

// TestTheCodeIsThatOfTheFirstErrorThatHasOne: a caller branches on what the engine says, not on
// what some store below it said before.
func TestTheCodeIsThatOfTheFirstErrorThatHasOne(t *testing.T) {
	inner := headroom.Errorf(headroom.Unavailable, nil, "gone")
	outer := headroom.Errorf(headroom.OutcomeUnknown, inner, "lost")
	for _, c := range []struct {
		err  error
		want headroom.Code
	}{
		{nil, ""}, {errors.New("of no code"), ""}, {inner, headroom.Unavailable}, {outer, headroom.OutcomeUnknown},
		{fmt.Errorf("while trying: %w", outer), headroom.OutcomeUnknown}, {headroom.Locked, headroom.Locked},
		{errors.Join(errors.New("of no code"), headroom.TooOld), headroom.TooOld},
	} {
		if got := headroom.CodeOf(c.err); got != c.want {
			t.Errorf("%v has the code %q, want %q", c.err, string(got), string(c.want))
		}
	}
	if !errors.Is(outer, headroom.Unavailable) {
		t.Error("the cause is not in the tree")
	}
}

// TestEveryCodeSaysWhatItMeans holds each code to a name that never changes, a message, and whether
// a repeat may help. The names are sent and stored: they must not change.
func TestEveryCodeSaysWhatItMeans(t *testing.T) {
	for code, want := range map[headroom.Code]struct {
		name  string
		again bool
	}{
		headroom.Invalid: {"invalid", false}, headroom.Conflict: {"conflict", false}, headroom.NotFound: {"not_found", false},
		headroom.Expired: {"expired", false}, headroom.TooMany: {"too_many", false}, headroom.TooOld: {"too_old", false},
		headroom.ClockUntrusted: {"clock_untrusted", false}, headroom.Throttled: {"throttled", true}, headroom.Contended: {"contended", true},
		headroom.Rejected: {"rejected", false}, headroom.Unavailable: {"unavailable", true}, headroom.OutcomeUnknown: {"outcome_unknown", true},
		headroom.Unreadable: {"unreadable", false}, headroom.Locked: {"locked", false},
	} {
		if string(code) != want.name || code.Retryable() != want.again {
			t.Errorf("%q, retryable %t: want %q, %t", string(code), code.Retryable(), want.name, want.again)
		}
		if message, found := strings.CutPrefix(code.Error(), want.name+": "); !found || message == "" {
			t.Errorf("%q says %q", want.name, code.Error())
		}
	}
	if text := headroom.Code("of_another_program").Error(); text != "of_another_program" {
		t.Errorf("an unknown code says %q", text)
	}
}
