package main

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// screen writes to what may be a terminal. Names and texts come from elsewhere, some of them inside
// the errors of libraries, and may contain characters that control a terminal. None of these gets
// through. They are escaped as in JSON, so that JSON still means the same.
type screen struct {
	to io.Writer

	mu   sync.Mutex // a logger may write at the same time as the verb
	part []byte     // the first bytes of a character whose last bytes are still to come
}

func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := append(s.part, text...)
	out := make([]byte, 0, len(in))
	for s.part = nil; len(in) > 0; {
		if !utf8.FullRune(in) {
			s.part = in
			break
		}
		r, size := utf8.DecodeRune(in)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, in[0])
		case r == '\n', r == '\t', strconv.IsPrint(r):
			out = append(out, in[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		in = in[size:]
	}
	if _, err := s.to.Write(out); err != nil {
		return 0, err
	}
	return len(text), nil
}

// unscreened returns the writer behind a screen.
func unscreened(w io.Writer) io.Writer {
	if s, ok := w.(*screen); ok {
		return s.to
	}
	return w
}
