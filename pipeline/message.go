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

// MaxJobID is how many bytes a job id may have. An operation id may have 256, and a later attempt
// adds a few to the job id.
const MaxJobID = 240

// MaxInput is how many bytes the input of an execution may have: 220 KiB. The name of the plan in
// it is not counted, because it is not known yet when this is checked.
//
// A state of Step Functions takes 256 KiB (262,144 bytes) in all. The remaining 36 KiB are room for
// the parameters of a step, and for the result beside the input, or for an error and its cause,
// which has 32 KiB at most.
const MaxInput = 220 * 1024

// stampKey is the field that the consumer adds to a message on its way to the execution.
const stampKey = "headroom"

// message is one queued job.
type message struct {
	JobID   string
	UserID  string
	Class   string
	Seconds float64 // requested
	Attempt int     // 1, or more for a rerun on purpose of a job that failed

	// noClass and noSeconds say in words why the class or the duration cannot be read. Empty: it
	// can.
	noClass, noSeconds string

	// fields are all fields of the message, also those that the pipeline does not know.
	fields fields
}

// parseMessage reads a message. If it does not identify a job, that is an error: only a person can
// tell what was meant, so the message belongs into the dead letters. Whether the job can be priced
// is not checked here.
func parseMessage(body []byte) (message, error) {
	if !utf8.Valid(body) {
		return message{}, invalid("the message is not UTF-8")
	}
	f, err := readFields(body)
	if err != nil {
		return message{}, headroom.Errorf(headroom.Invalid, err, "the message is not a JSON object")
	}
	if _, taken := f[stampKey]; taken {
		return message{fields: f}, invalid("the message has a field %q, which the consumer adds", stampKey)
	}
	return f.message()
}

// message reads a message from its fields.
func (f fields) message() (message, error) {
	m := message{fields: f}
	// Read all that can be read before an error is returned, so that the log can name the job.
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
	// A strange class or duration is no error here. The job is known, so its record can say what is
	// wrong with it.
	m.Class, m.noClass = m.fields.text("voiceQuality")
	m.Seconds, m.noSeconds = m.fields.number("durationSeconds")
	return m, nil
}

// checkID accepts an id that a person can read and a log line can hold.
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
	Class       string    `json:"voiceQuality,omitempty"`    // as the message asked
	Seconds     float64   `json:"durationSeconds,omitempty"` // as the message asked
	Plan        string    `json:"plan,omitempty"`            // in force at the start
	Cost        int64     `json:"cost"`                      // estimated
	Held        bool      `json:"held,omitempty"`            // units were reserved
	RequestedAt time.Time `json:"requestedAt,omitzero"`
}

// asked prices what a message asks for.
func (p *Pipeline) asked(m message) (int64, error) {
	if strange := cmp.Or(m.noClass, m.noSeconds); strange != "" {
		return 0, invalid("%s", strange)
	}
	return p.cost(m.Class, m.Seconds)
}

// input is the input of the execution: the message as it came, and the stamp. Its bytes depend only
// on the message and the job's record, so that a job that is started twice runs once.
func (m message) input(j Job) ([]byte, error) {
	all := map[string]any{stampKey: stamp{
		Attempt: j.Attempt, Class: j.Class, Seconds: j.Seconds, Plan: j.Plan, Cost: j.Cost, Held: j.Held,
		RequestedAt: j.RequestedAt,
	}}
	for name, raw := range m.fields {
		all[name] = raw
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // the fields of the message are passed on as they are
	if err := encoder.Encode(all); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// fits fails if the input would be too long. The start of the execution would fail each time.
func (m message) fits(j Job, held bool) error {
	j.Plan, j.Held = "", held
	text, err := m.input(j)
	if err == nil && len(text) > MaxInput {
		return invalid("the execution's input would have %d bytes: at most %d", len(text), MaxInput)
	}
	return err
}

// operation is the id under which an attempt of a job holds and charges units. For the first
// attempt it is the job id. A job id has no line break, so no two attempts of two jobs share an
// operation.
func operation(jobID string, attempt int) string {
	if attempt <= 1 {
		return jobID
	}
	return jobID + "\n" + strconv.Itoa(attempt)
}
