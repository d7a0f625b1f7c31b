package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Row is one finished piece of work.
type Row struct {
	Line      int       // the number of its line in the file; the header is line 1
	At        time.Time // when the work was finished
	Subject   string
	Operation string
	Class     string
	Quantity  float64
}

// columns are the names that the header must have, in any order. It may have others too.
var columns = []string{"completed_at", "subject", "operation", "quality", "duration_seconds"}

// maxLine is how long a line may be, in bytes. The longest names need far less, and a file without
// line ends would take far more.
const maxLine = 1 << 16

// BadRow says why a row cannot be used.
type BadRow struct {
	Line int
	Err  error
}

func (e *BadRow) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *BadRow) Unwrap() error { return e.Err }

// Reader reads rows of CSV (RFC 4180): a header line, then one row on each line. A quoted field
// must end on its line, so that a mistake in one row cannot swallow the next.
type Reader struct {
	text *bufio.Reader
	line int
	at   map[string]int // index of each column
	need int            // how many fields a row has
}

// NewReader reads the header. It recognizes gzip by the first bytes.
func NewReader(r io.Reader) (*Reader, error) {
	raw := bufio.NewReaderSize(r, maxLine)
	if magic, err := raw.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(raw)
		if err != nil {
			return nil, err
		}
		raw = bufio.NewReaderSize(unzipped, maxLine)
	}
	reader := &Reader{text: raw, at: map[string]int{}}
	header, err := reader.next()
	if err == io.EOF {
		return nil, errors.New("the file is empty: want a header with " + strings.Join(columns, ", "))
	}
	if err != nil {
		return nil, err
	}
	// A spreadsheet may put a byte order mark before the text.
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	for i, name := range header {
		name = strings.TrimSpace(name)
		if _, twice := reader.at[name]; twice && slices.Contains(columns, name) {
			return nil, fmt.Errorf("line %d: the header has the column %q twice", reader.line, name)
		}
		reader.at[name] = i
	}
	for _, name := range columns {
		if _, ok := reader.at[name]; !ok {
			return nil, fmt.Errorf("line %d: the header has no column %q: want %s", reader.line,
				name, strings.Join(columns, ", "))
		}
	}
	reader.need = len(header)
	return reader, nil
}

// Next returns the next row, and io.EOF after the last one. For a row that cannot be used it
// returns a *BadRow, after which reading can go on.
func (r *Reader) Next() (Row, error) {
	fields, err := r.next()
	if err != nil {
		return Row{}, err
	}
	if len(fields) != r.need {
		return Row{}, r.bad("%d fields: want %d", len(fields), r.need)
	}
	field := func(name string) string { return fields[r.at[name]] }
	row := Row{
		Line:      r.line,
		Subject:   field("subject"),
		Operation: field("operation"),
		Class:     field("quality"),
	}
	if row.At, err = time.Parse(time.RFC3339, field("completed_at")); err != nil {
		return Row{}, r.bad("completed_at %q: want a time like 2026-05-31T23:59:59Z", field("completed_at"))
	}
	if row.Quantity, err = strconv.ParseFloat(field("duration_seconds"), 64); err != nil {
		return Row{}, r.bad("duration_seconds %q: want a number", field("duration_seconds"))
	}
	return row, nil
}

// next returns the fields of the next line that is not empty.
func (r *Reader) next() ([]string, error) {
	for {
		r.line++
		line, err := r.text.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, r.skip()
		}
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("after line %d: %w", r.line-1, err)
		}
		if text := strings.TrimRight(string(line), "\r\n"); text != "" {
			return r.split(text)
		}
		if err == io.EOF {
			return nil, io.EOF
		}
	}
}

// skip reads to the end of a line that is too long.
func (r *Reader) skip() error {
	for {
		_, err := r.text.ReadSlice('\n')
		if err == nil || err == io.EOF {
			return r.bad("longer than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("in line %d: %w", r.line, err)
		}
	}
}

func (r *Reader) split(text string) ([]string, error) {
	if !strings.Contains(text, `"`) {
		return strings.Split(text, ","), nil
	}
	fields, err := csv.NewReader(strings.NewReader(text)).Read()
	var wrong *csv.ParseError
	if errors.As(err, &wrong) {
		return nil, r.bad("column %d: %v", wrong.Column, wrong.Err)
	}
	return fields, err
}

func (r *Reader) bad(format string, args ...any) error {
	return &BadRow{Line: r.line, Err: fmt.Errorf(format, args...)}
}
