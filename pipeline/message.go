package pipeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lumcast/headroom"
)

// MaxJobID is the length of a job id in bytes. An operation id has 256, of which a later attempt takes a few.
const MaxJobID = 240

// MaxInput is how many bytes the input of an execution may have, but for the name of the plan in it,
// which is not known when that is looked at: 220 KiB. A state of Step Functions
// takes 262,144 bytes in all. What is left, 36 KiB, is room for the parameters of a step, and for
// the result beside the input, or for an error and its cause, which has 32 KiB at most.
const MaxInput = 220 * 1024

// stampKey is the field that the consumer adds to a message on its way to the execution.
const stampKey = "headroom"

// message is one queued job.
type message struct {
	JobID   string
	UserID  string
	Class   string
	Seconds float64 // requested
	Attempt int     // 1, or more for a deliberate rerun of a failed job

	noClass, noSeconds string // why it cannot be read, in words. Empty: it can

	// fields are all of the message, also those that are not known here.
	fields fields
}

// parseMessage reads what identifies a job. What cannot be identified is an error: only a person can tell what was meant, so it belongs into a dead-letter queue.
// Whether the job can be priced is not looked at.
func parseMessage(body []byte) (message, error) {
	if !utf8.Valid(body) {
		return message{}, invalid("the message is not UTF-8")
	}
	f, err := readFields(body)
	if err != nil {
		return message{}, headroom.Errorf(headroom.CodeInvalid, err, "the message is not a JSON object")
	}
	if _, taken := f[stampKey]; taken {
		return message{fields: f}, invalid("the message has a field %q, which the consumer adds", stampKey)
	}
	return f.message()
}

// message reads a message from its fields.
func (f fields) message() (message, error) {
	m := message{fields: f}
	// All that can be read is, so that the log can name the job.
	var noJob, noUser, noAttempt string
	m.JobID, noJob = m.fields.text("jobId")
	m.UserID, noUser = m.fields.text("userId")
	m.Attempt, noAttempt = m.fields.whole("attempt", 1)
	if strange := cmp.Or(noJob, noUser, noAttempt); strange != "" {
		return m, invalid("%s", strange)
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
	// A strange class or duration is no error here: the job is identified, so its record can say what is wrong.
	m.Class, m.noClass = m.fields.text("voiceQuality")
	m.Seconds, m.noSeconds = m.fields.number("durationSeconds")
	return m, nil
}

// checkID accepts what a person can read and a log line can hold.
func checkID(what, id string, most int) error {
	if id == "" {
		return invalid("%s is empty", what)
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
	Class       string    `json:"voiceQuality,omitempty"`    // as asked
	Seconds     float64   `json:"durationSeconds,omitempty"` // likewise
	Plan        string    `json:"plan,omitempty"`            // in force at the start
	Cost        int64     `json:"cost"`                      // estimated
	Held        bool      `json:"held,omitempty"`
	RequestedAt time.Time `json:"requestedAt,omitzero"`
}

// asked prices what a message asks for.
func (p *Pipeline) asked(m message) (int64, error) {
	if strange := cmp.Or(m.noClass, m.noSeconds); strange != "" {
		return 0, invalid("%s", strange)
	}
	return p.cost(m.Class, m.Seconds)
}

// input is what the execution gets: the message as it came, and the stamp. Its bytes depend on the message and the job's record alone, so that starting twice is starting once.
func (m message) input(j Job) ([]byte, error) {
	all := map[string]any{stampKey: stamp{Attempt: j.Attempt, Class: j.Class, Seconds: j.Seconds, Plan: j.Plan, Cost: j.Cost, Held: j.Held, RequestedAt: j.RequestedAt}}
	for name, raw := range m.fields {
		all[name] = raw
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // what the message holds is passed on as it is
	if err := encoder.Encode(all); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// fits reports an input that would be too long. At the start it would fail again and again.
func (m message) fits(j Job, held bool) error {
	j.Plan, j.Held = "", held
	text, err := m.input(j)
	if err == nil && len(text) > MaxInput {
		return invalid("the execution's input would have %d bytes: at most %d", len(text), MaxInput)
	}
	return err
}

// operation is the id under which an attempt of a job holds and charges units. The first attempt's is the job id. No job id has a line break, so that no two attempts of two jobs share one.
func operation(jobID string, attempt int) string {
	if attempt <= 1 {
		return jobID
	}
	return jobID + "\n" + strconv.Itoa(attempt)
}
