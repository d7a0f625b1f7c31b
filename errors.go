package headroom

import (
	"errors"
	"fmt"
)

// Code names a kind of failure. A Code is itself an error, as a syscall.Errno is, so that
// errors.Is(err, headroom.Throttled) asks whether err, or what caused it, is of that kind.
//
// Codes are stable: programs may branch on them, and they are what is printed, logged and sent over
// a network. To print the name and not the message, convert it: string(code).
type Code string

// The codes. Unless the comment says otherwise, nothing was written.
const (
	Invalid        Code = "invalid"         // the input is wrong
	Conflict       Code = "conflict"        // the operation id stands for something else
	NotFound       Code = "not_found"       // no such operation is remembered
	Expired        Code = "expired"         // the hold is over
	TooMany        Code = "too_many"        // the subject has as many holds or grants as there can be
	TooOld         Code = "too_old"         // the operation began before the horizon of remembered ids
	ClockUntrusted Code = "clock_untrusted" // the host's clock lies behind what the store has seen
	Throttled      Code = "throttled"       // the store asks for fewer requests
	Contended      Code = "contended"       // other writers won every try
	Rejected       Code = "rejected"        // the store refused the request: rights, a table, a size
	Unavailable    Code = "unavailable"     // the store could not be reached, or failed
	OutcomeUnknown Code = "outcome_unknown" // it may have been written: repeat the same id
	Unreadable     Code = "unreadable"      // stored data is damaged, or newer than this program
	Locked         Code = "locked"          // another process has the store open
)

var messages = map[Code]string{
	Invalid:        "the input is wrong",
	Conflict:       "the operation id stands for something else",
	NotFound:       "no such operation is remembered",
	Expired:        "the hold is over",
	TooMany:        "there are as many holds or grants as there can be",
	TooOld:         "the operation began longer ago than ids are remembered",
	ClockUntrusted: "the host's clock cannot be trusted",
	Throttled:      "the store asks for fewer requests",
	Contended:      "other writers won every try",
	Rejected:       "the store refused the request",
	Unavailable:    "the store cannot be reached",
	OutcomeUnknown: "the write may have taken effect: repeat the same operation id",
	Unreadable:     "stored data is damaged, or newer than this program",
	Locked:         "another process has the store open",
}

// Error says what the code means, after its name: "throttled: the store asks for fewer requests".
func (c Code) Error() string {
	message, known := messages[c]
	if !known {
		return string(c)
	}
	return string(c) + ": " + message
}

// Retryable reports whether the same request may succeed if it is simply asked again, under the
// same operation id, by waiting for a while and mending nothing.
func (c Code) Retryable() bool {
	switch c {
	case Throttled, Contended, Unavailable, OutcomeUnknown:
		return true
	}
	return false
}

// storeFailed reports whether the store failed, as opposed to the request being wrong. Those are
// the failures on which Preflight may let through. Rejected is one of them though it is not
// Retryable: somebody has to give the rights, or make the table, and meanwhile work may begin.
func (c Code) storeFailed() bool { return c.Retryable() || c == Rejected }

// CodeOf returns the code of err: that of the first error in its tree which has one. An error that
// has none, and a nil error, give the empty Code.
func CodeOf(err error) Code {
	var code Code
	errors.As(err, &code)
	return code
}

// Error is a failure with a code. Every method of an Engine and of a Store fails with one. A
// refusal is never an Error: it is a Decision.
type Error struct {
	Code    Code
	Message string // what went wrong and what to do
	Err     error  // the cause, if there is one
}

// Errorf returns an Error with a message and, if cause is not nil, what caused it. It is for
// implementations of Store.
func Errorf(code Code, cause error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Err: cause}
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the code of e.
func (e *Error) Is(target error) bool { return target == error(e.Code) }

// As sets target to the code of e if it is a *Code.
func (e *Error) As(target any) bool {
	code, ok := target.(*Code)
	if ok {
		*code = e.Code
	}
	return ok
}

func invalid(format string, args ...any) *Error { return Errorf(Invalid, nil, format, args...) }
