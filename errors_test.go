package headroom_test

import (
	"errors"
	"testing"

	"github.com/lumcast/headroom"
)

func TestErrorsMatchTheSentinelOfTheirCode(t *testing.T) {
	cause := errors.New("the cause")
	err := error(headroom.Errorf(headroom.Throttled, cause, "slow down, %s", "please"))
	if err.Error() != "slow down, please: the cause" || !errors.Is(err, headroom.Throttled) || errors.Is(err, headroom.Unavailable) || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if err := headroom.Errorf(headroom.Invalid, nil, "wrong"); err.Error() != "wrong" || err.Unwrap() != nil || errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}
