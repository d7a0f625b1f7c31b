package pipeline

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lumcast/headroom"
)

// MaxJobID is the length of a job id in bytes. An operation id has 256, of which a later attempt takes a few.
const MaxJobID = 240

// MaxInput is how many bytes the input of an execution may have: the limit of Step Functions.
const MaxInput = 262144

// stampKey is the field that the consumer adds to a message on its way to the execution.
const stampKey = "headroom"

// message is one queued job.
type message struct {
	JobID   string
	UserID  string
	Class   string
	Seconds float64 // requested
	Attempt int     // 1, or more for a deliberate rerun of a failed job

	// fields are all of the message, also those that are not known here.
	fields map[string]json.RawMessage
}

// parseMessage reads what identifies a job. What cannot be identified is an error: only a person can tell what was meant, so it belongs into a dead-letter queue.
// Whether the job can be priced is not looked at.
func parseMessage(body []byte) (message, error) {
	var m message
	if !utf8.Valid(body) {
		return m, invalid("the message is not UTF-8")
	}
	if err := json.Unmarshal(body, &m.fields); err != nil || m.fields == nil {
		return m, headroom.Errorf(headroom.CodeInvalid, err, "the message is not a JSON object")
	}
	if _, taken := m.fields[stampKey]; taken {
		return m, invalid("the message has a field %q, which the consumer adds", stampKey)
	}
	m.Attempt = 1
	for name, into := range map[string]any{"jobId": &m.JobID, "userId": &m.UserID, "attempt": &m.Attempt} {
		if raw, given := m.fields[name]; given {
			if err := json.Unmarshal(raw, into); err != nil {
				return m, headroom.Errorf(headroom.CodeInvalid, err, "field %s of the message has the wrong type", name)
			}
		}
	}
	if err := checkID("jobId", m.JobID, MaxJobID); err != nil {
		return m, err
	}
	if err := checkID("userId", m.UserID, headroom.MaxSubject); err != nil {
		return m, err
	}
	if m.Attempt < 1 || m.Attempt > 9999 {
		return m, invalid("attempt %d: want 1 to 9999", m.Attempt)
	}
	// A class or a duration of the wrong type is priced like an unknown one: the job is identified, so its record can say what is wrong.
	json.Unmarshal(m.fields["voiceQuality"], &m.Class)
	if err := json.Unmarshal(m.fields["durationSeconds"], &m.Seconds); err != nil {
		m.Seconds = -1
	}
	return m, nil
}

// checkID accepts what a person can read and a log line can hold.
func checkID(what, id string, most int) error {
	if id == "" {
		return invalid("%s is missing or empty", what)
	}
	if len(id) > most {
		return invalid("%s has %d bytes: at most %d", what, len(id), most)
	}
	for _, r := range id {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return invalid("%s %q has a character that cannot be shown", what, id)
		}
	}
	return nil
}

// stamp is what the consumer tells the callback through the execution's input.
type stamp struct {
	Attempt     int       `json:"attempt"`
	Plan        string    `json:"plan,omitempty"`
	Cost        int64     `json:"cost"` // estimated
	Held        bool      `json:"held,omitempty"`
	RequestedAt time.Time `json:"requestedAt,omitzero"`
}

// input is what the execution gets: the message as it came, and the stamp. Its bytes depend on the message and the job's record alone, so that starting twice is starting once.
func (m message) input(j Job) ([]byte, error) {
	fields := make(map[string]json.RawMessage, len(m.fields)+1)
	for name, raw := range m.fields {
		fields[name] = raw
	}
	var err error
	if fields[stampKey], err = json.Marshal(stamp{Attempt: j.Attempt, Plan: j.Plan, Cost: j.Cost, Held: j.Held, RequestedAt: j.RequestedAt}); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // what the message holds is passed on as it is
	if err := encoder.Encode(fields); err != nil {
		return nil, err
	}
	text := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if len(text) > MaxInput {
		return nil, invalid("the execution's input would have %d bytes: at most %d", len(text), MaxInput)
	}
	return text, nil
}

// operation is the id under which an attempt of a job holds and charges units. The first attempt's is the job id. No job id has a line break, so that no two attempts of two jobs share one.
func operation(jobID string, attempt int) string {
	if attempt <= 1 {
		return jobID
	}
	return jobID + "\n" + strconv.Itoa(attempt)
}
