package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/lumcast/headroom"
)

// Letter is a message that the queue has given up, and what can be done about it.
type Letter struct {
	JobID, UserID string // empty if the message does not tell
	Attempt       int    // of the message
	Reason        string // why it is among the dead letters, as far as it can be known; for a person
	// Body is what to send to the queue so that the job runs, with another attempt where the last one
	// has failed. Nil: nothing that is sent would run it.
	Body []byte
	// Over tells that the job has come to its end or goes on without this message.
	Over bool
	// Next is the attempt that Body asks for.
	Next int
}

// ReadLetter reads a dead letter and the record of its job.
func ReadLetter(ctx context.Context, jobs Jobs, body []byte) (Letter, error) {
	body = unwrap(body)
	m, err := parseMessage(body)
	l := Letter{JobID: m.JobID, UserID: m.UserID, Attempt: m.Attempt}
	if err != nil {
		l.Reason = err.Error()
		return l, nil
	}
	j, found, err := jobs.Get(ctx, m.JobID)
	if err != nil {
		return l, err
	}
	switch last := max(j.Attempt, 1); {
	case found && j.UserID != m.UserID:
		l.Reason = fmt.Sprintf("job %q is another user's", m.JobID)
	case !found && m.Attempt > 1:
		l.Reason, l.Next = fmt.Sprintf("attempt %d of a job without a record", m.Attempt), m.Attempt
	case !found:
		l.Reason, l.Next = "no delivery came as far as the job's record: the consumer's log says why", m.Attempt
	case j.Status == Failed:
		l.Reason, l.Next = "failed: "+j.Reason, last+1
	case !j.Open() || j.Status == Succeeded:
		l.Reason, l.Over = "the job has ended: "+string(j.Status), true
	case m.Attempt < last:
		l.Reason, l.Over = fmt.Sprintf("attempt %d of the job is %s", last, j.Status), true
	case m.Attempt > last:
		l.Reason = fmt.Sprintf("attempt %d follows on a failure, but attempt %d is %s", m.Attempt, last, j.Status)
	default:
		_, _, err := m.due(j, true)
		if l.Reason = "the job is " + string(j.Status) + ", and its execution could not be started: the consumer's log says why"; err != nil {
			l.Reason = err.Error()
		} else {
			l.Next = last
		}
	}
	if l.Next > 0 {
		l.Body = m.again(body, l.Next)
	}
	return l, nil
}

// again is the message with another attempt. The message of the same one stays as it is.
func (m message) again(body []byte, attempt int) []byte {
	if attempt == m.Attempt {
		return body
	}
	fields := maps.Clone(m.fields)
	fields["attempt"] = fmt.Append(nil, attempt)
	body, _ = json.Marshal(fields) // it cannot fail: each field was read from JSON
	return body
}

// decisionClosed marks a job that a person has ended.
const decisionClosed = "closed"

// Close ends an open job because a person says so, and gives the reason in its record. One that is
// queued or runs is failed; what it holds is released, and should its work succeed after all, that
// counts. One whose charge is pending is unpaid for good; a charge that was made and not noted stays
// made. A job that has ended is a conflict.
func (p *Pipeline) Close(ctx context.Context, id, reason string) (Job, error) {
	if reason == "" {
		return Job{}, invalid("to close a job needs a reason")
	}
	for range swapTries {
		j, found, err := p.jobs.Get(ctx, id)
		switch {
		case err != nil:
			return j, err
		case !found:
			return j, headroom.Errorf(headroom.CodeNotFound, nil, "there is no job %q", id)
		case j.Open():
			was := j
			if j.Status == Succeeded {
				j.Status, j.Charge = Unpaid, ""
			} else {
				j.Status = Failed
			}
			j.Decision, j.Reason, j.FinishedAt, j.UpdatedAt = decisionClosed, clip(reason), p.now(), p.now()
			swapped, err := p.jobs.Swap(ctx, was, j)
			if err != nil {
				return j, err
			}
			if !swapped {
				continue
			}
		case j.Decision != decisionClosed:
			return j, conflict("job %q has ended: it is %s", id, j.Status)
		}
		// Also when it was closed before: that call may have come no further.
		if j.Held {
			attempt := operation(j.ID, max(j.Attempt, 1))
			if j.Operation != "" {
				attempt = j.Operation
			}
			err = p.release(ctx, j, attempt)
		}
		p.report(ctx, atOperator, sighting{job: j, decision: j.Decision}, err)
		return j, err
	}
	return Job{}, headroom.Errorf(headroom.CodeContended, nil, "job %q changed %d times in a row", id, swapTries)
}
