package onlambda

import (
	"errors"
	"testing"
	"time"

	"github.com/lumcast/headroom"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestTheEnvironmentSetsTheOptions(t *testing.T) {
	opts, err := options(env())
	if err != nil || opts.Hold != 0 || opts.Refuse || opts.Clock != nil {
		t.Errorf("%+v, %v", opts, err)
	}
	opts, err = options(env("HEADROOM_MODE", "hold", "HEADROOM_OVER", "refuse", "HEADROOM_PLAN", "studio", "HEADROOM_NAMESPACE", "N", "HEADROOM_TEST_CLOCK", "2026-05-31T23:59:00Z"))
	if err != nil || opts.Hold != DefaultHold || !opts.Refuse || opts.Plan != "studio" || opts.Namespace != "N" || !opts.Clock().Equal(time.Date(2026, 5, 31, 23, 59, 0, 0, time.UTC)) {
		t.Errorf("%+v, %v", opts, err)
	}
	if opts, err = options(env("HEADROOM_MODE", "hold", "HEADROOM_HOLD", "45m")); err != nil || opts.Hold != 45*time.Minute {
		t.Errorf("%+v, %v", opts, err)
	}
	if d, err := OlderThan(env()); err != nil || d != DefaultOlderThan {
		t.Error(d, err)
	}
}

func TestAWrongEnvironmentIsAnErrorAtTheStart(t *testing.T) {
	for _, c := range [][]string{
		{"HEADROOM_MODE", "holds"}, {"HEADROOM_OVER", "yes"}, {"HEADROOM_MODE", "hold", "HEADROOM_HOLD", "3"}, {"HEADROOM_MODE", "hold", "HEADROOM_HOLD", "-3h"}, {"HEADROOM_TEST_CLOCK", "now"},
	} {
		if _, err := options(env(c...)); !errors.Is(err, headroom.ErrInvalid) {
			t.Errorf("%q: %v", c, err)
		}
	}
	if _, err := Pipeline(t.Context(), env("HEADROOM_TABLE", "users")); !errors.Is(err, headroom.ErrInvalid) {
		t.Error(err)
	}
	if _, err := OlderThan(env("HEADROOM_OLDER_THAN", "soon")); !errors.Is(err, headroom.ErrInvalid) {
		t.Error(err)
	}
}
