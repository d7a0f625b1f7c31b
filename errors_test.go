package headroom_test

import (
	"errors"
	"testing"

	"github.com/lumcast/headroom"
)

func TestErrorsMatchTheSentinelOfTheirCode(t *testing.T) {
	cause := errors.New("the cause")
	err := error(headroom.Errorf(headroom.CodeThrottled, cause, "slow down, %s", "please"))
	if err.Error() != "slow down, please: the cause" || !errors.Is(err, headroom.ErrThrottled) || errors.Is(err, headroom.ErrUnavailable) || !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
	if err := headroom.Errorf(headroom.CodeInvalid, nil, "wrong"); err.Error() != "wrong" || err.Unwrap() != nil || errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}
