package headroom

import (
	"strings"
	"time"
	"unicode/utf8"
)

// How many bytes of UTF-8 a name may have.
const (
	MaxSubject   = 1024
	MaxMeter     = 256
	MaxOperation = 256
)

// checkText returns an error if s is no text that may name something.
func checkText(what, s string, most int) error {
	switch {
	case s == "":
		return invalid("%s is empty", what)
	case len(s) > most:
		return invalid("%s has %d bytes: at most %d", what, len(s), most)
	case !utf8.ValidString(s):
		return invalid("%s %q is not UTF-8", what, s)
	}
	return nil
}

func checkName(what, s string) error { return checkText(what, s, MaxMeter) }

// plainName reports whether s may be a limit's name: 1 to 32 lower-case letters, digits, - or _.
func plainName(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// checkTime returns an error if not every format of ours can hold t.
func checkTime(t time.Time) error {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return invalid("time %s: want a year from 1 to 9999", t)
	}
	return nil
}

func checkLasts(what string, d time.Duration) error {
	if d < time.Second {
		return invalid("a %s of %s: want at least a second", what, d)
	}
	return nil
}
