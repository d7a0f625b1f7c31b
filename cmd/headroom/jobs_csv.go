package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lumcast/headroom/pipeline"
)

// jobColumns are the columns that a CSV file of jobs must have. It may also have the column
// attempt.
var jobColumns = []string{"jobId", "userId", "voiceQuality", "durationSeconds"}

// readJobs makes a message of each line of a CSV file of jobs. The first line names the columns. A
// column that is neither one of jobColumns nor attempt becomes a field of the message, which is
// passed on to the work.
func readJobs(path string, stdin io.Reader) (bodies [][]byte, err error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usageError("the jobs cannot be read: %v", err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	r := csv.NewReader(in)
	header, err := r.Read()
	if err != nil {
		return nil, usageError("%s: no header line: want %s", path, strings.Join(jobColumns, ","))
	}
	// A spreadsheet may put a byte order mark before the text.
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	if err := checkHeader(path, header); err != nil {
		return nil, err
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return bodies, nil
		}
		if err != nil {
			return nil, usageError("%s: %v", path, err)
		}
		body, err := jobOf(header, row)
		if err != nil {
			line, _ := r.FieldPos(0)
			return nil, usageError("%s:%d: %v", path, line, err)
		}
		bodies = append(bodies, body)
	}
}

func checkHeader(path string, header []string) error {
	for i, name := range header {
		if slices.Contains(header[:i], name) {
			return usageError("%s: the header names the column %s twice", path, name)
		}
	}
	for _, name := range jobColumns {
		if !slices.Contains(header, name) {
			return usageError("%s: the header has no column %s", path, name)
		}
	}
	return nil
}

// jobOf makes the message of one row.
func jobOf(header, row []string) ([]byte, error) {
	more := map[string]json.RawMessage{}
	field := map[string]string{"attempt": "1"}
	for i, name := range header {
		if !utf8.ValidString(name) || !utf8.ValidString(row[i]) {
			return nil, fmt.Errorf("%s %q is not UTF-8", name, row[i])
		}
		if field[name] = row[i]; name != "attempt" && !slices.Contains(jobColumns, name) {
			more[name], _ = json.Marshal(row[i]) // a string can always be encoded
		}
	}
	seconds, err := strconv.ParseFloat(field["durationSeconds"], 64)
	if err != nil {
		return nil, fmt.Errorf("durationSeconds %q: want a number", field["durationSeconds"])
	}
	attempt, err := strconv.Atoi(field["attempt"])
	if err != nil {
		return nil, fmt.Errorf("attempt %q: want a whole number", field["attempt"])
	}
	return pipeline.Send(field["jobId"], field["userId"], field["voiceQuality"], seconds, attempt, more)
}
