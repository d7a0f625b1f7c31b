package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lumcast/headroom/pipeline"
)

// readJobs reads the jobs of a CSV file and makes a message of each line. A header names the columns: jobId, userId, voiceQuality, durationSeconds and, for reruns, attempt; every other column is passed on as a field of the message.
func readJobs(path string, stdin io.Reader) ([][]byte, error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usageError("the jobs cannot be read: %v", err)
		}
		defer file.Close()
		in = file
	}
	r := csv.NewReader(in)
	header, err := r.Read()
	if err != nil {
		return nil, usageError("%s: no header line: want jobId,userId,voiceQuality,durationSeconds", path)
	}
	// A spreadsheet may put a byte order mark before the text.
	header[0] = strings.TrimPrefix(header[0], "\ufeff")
	for i, name := range header {
		if slices.Contains(header[:i], name) {
			return nil, usageError("%s: the header names the column %s twice", path, name)
		}
	}
	for _, name := range []string{"jobId", "userId", "voiceQuality", "durationSeconds"} {
		if !slices.Contains(header, name) {
			return nil, usageError("%s: the header names no column %s", path, name)
		}
	}
	var bodies [][]byte
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return bodies, nil
		}
		if err != nil {
			return nil, usageError("%s: %v", path, err)
		}
		line, _ := r.FieldPos(0)
		more := map[string]json.RawMessage{}
		field := map[string]string{"attempt": "1"}
		for i, name := range header {
			if field[name] = row[i]; !utf8.ValidString(name) || !utf8.ValidString(row[i]) {
				return nil, usageError("%s:%d: %s %q is not UTF-8", path, line, name, row[i])
			}
			if !slices.Contains([]string{"jobId", "userId", "voiceQuality", "durationSeconds", "attempt"}, name) {
				more[name], _ = json.Marshal(row[i]) // of a string, which always works
			}
		}
		seconds, err := strconv.ParseFloat(field["durationSeconds"], 64)
		if err != nil {
			return nil, usageError("%s:%d: durationSeconds %q: want a number", path, line, field["durationSeconds"])
		}
		attempt, err := strconv.Atoi(field["attempt"])
		if err != nil {
			return nil, usageError("%s:%d: attempt %q: want a whole number", path, line, field["attempt"])
		}
		body, err := pipeline.Send(field["jobId"], field["userId"], field["voiceQuality"], seconds, attempt, more)
		if err != nil {
			return nil, usageError("%s:%d: %v", path, line, err)
		}
		bodies = append(bodies, body)
	}
}
