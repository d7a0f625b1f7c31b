package headroom

import "fmt"

// Code names a kind of failure. Codes are stable: programs may branch on them.
type Code string

const (
	CodeInvalid        Code = "invalid"         // the input is wrong; nothing was written
	CodeConflict       Code = "conflict"        // the operation id was used for something else
	CodeNotFound       Code = "not_found"       // no such operation is remembered
	CodeExpired        Code = "expired"         // the hold is over
	CodeTooMany        Code = "too_many"        // as many holds or grants as there can be; nothing was written
	CodeTooOld         Code = "too_old"         // the operation began before the horizon of remembered ids
	CodeClock          Code = "clock"           // the host's clock cannot be trusted
	CodeThrottled      Code = "throttled"       // the store asks for fewer requests; nothing was written
	CodeContended      Code = "contended"       // other writers won every retry; nothing was written
	CodeRejected       Code = "rejected"        // the store refused the request as such: rights, a missing table, a size; nothing was written
	CodeUnavailable    Code = "unavailable"     // the store could not be reached or failed; nothing was written
	CodeOutcomeUnknown Code = "outcome_unknown" // the write may or may not have taken effect: repeat the same operation id
	CodeFormat         Code = "format"          // stored data has a newer format than this program knows, or is damaged
	CodeLocked         Code = "locked"          // another process has the store open
)

// Error is a failure with a code. A refusal is never an Error: it is a Decision.
type Error struct {
	Code    Code
	Message string // what went wrong and what to do
	Err     error  // the cause, if there is one
}

// Sentinels for errors.Is: an Error matches the sentinel that has its code.
var (
	ErrInvalid        = &Error{Code: CodeInvalid, Message: "invalid input"}
	ErrConflict       = &Error{Code: CodeConflict, Message: "operation id used for something else"}
	ErrNotFound       = &Error{Code: CodeNotFound, Message: "operation not known"}
	ErrExpired        = &Error{Code: CodeExpired, Message: "hold expired"}
	ErrTooMany        = &Error{Code: CodeTooMany, Message: "too many holds or grants"}
	ErrTooOld         = &Error{Code: CodeTooOld, Message: "operation is older than the horizon"}
	ErrClock          = &Error{Code: CodeClock, Message: "clock not trusted"}
	ErrThrottled      = &Error{Code: CodeThrottled, Message: "throttled"}
	ErrContended      = &Error{Code: CodeContended, Message: "contended"}
	ErrRejected       = &Error{Code: CodeRejected, Message: "rejected by the store"}
	ErrUnavailable    = &Error{Code: CodeUnavailable, Message: "store unavailable"}
	ErrOutcomeUnknown = &Error{Code: CodeOutcomeUnknown, Message: "outcome unknown: repeat the same operation id"}
	ErrFormat         = &Error{Code: CodeFormat, Message: "stored format not known"}
	ErrLocked         = &Error{Code: CodeLocked, Message: "store is open in another process"}
)

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Errorf returns an Error with a message and, if cause is not nil, what caused it. It is for implementations of Store.
func Errorf(code Code, cause error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Err: cause}
}

func invalid(format string, args ...any) *Error { return Errorf(CodeInvalid, nil, format, args...) }

// transient reports whether the store failed, as opposed to the request being wrong.
func (e *Error) transient() bool {
	switch e.Code {
	case CodeThrottled, CodeContended, CodeUnavailable, CodeOutcomeUnknown, CodeRejected:
		return true
	}
	return false
}
