package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/lumcast/headroom"
)

// Letter is a dead letter (a message that the queue has given up), and what can be done about it.
type Letter struct {
	JobID, UserID string // empty if the message does not tell
	Attempt       int    // of the message
	// Reason tells a person why the message is among the dead letters, as far as that can be known.
	Reason string
	// Body is the message to send to the queue so that the job runs. If the last attempt failed, it
	// asks for the next one. Nil: no message would make the job run.
	Body []byte
	// Next is the attempt that Body asks for.
	Next int
	// Over tells that the job has come to its end, or goes on without this message.
	Over bool
}

// ReadLetter reads a dead letter and the record of its job. It fails only if the record cannot be
// read.
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
		l.Reason = fmt.Sprintf("attempt %d follows on a failure, but attempt %d is %s", m.Attempt,
			last, j.Status)
	default:
		_, _, err := m.due(j, true)
		if err != nil {
			l.Reason = err.Error()
			break
		}
		l.Next = last
		l.Reason = "the job is " + string(j.Status) +
			", and its execution could not be started: the consumer's log says why"
	}
	if l.Next > 0 {
		l.Body = m.again(body, l.Next)
	}
	return l, nil
}

// again returns the message for an attempt. For the same attempt the message stays as it is.
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

// Close ends an open job because a person says so, and keeps the reason in its record. A job that
// is queued or runs becomes failed, and what it holds is released. If its work succeeds after all,
// that counts. A job whose charge is pending becomes unpaid for good. If the charge was made and
// not noted yet, it stays made.
//
// Close fails with headroom.Invalid if there is no reason, with headroom.NotFound if there is no
// job, and with headroom.Conflict if the job has ended. To close a job again does no harm.
func (p *Pipeline) Close(ctx context.Context, id, reason string) (Job, error) {
	if reason == "" {
		return Job{}, invalid("to close a job needs a reason")
	}
	for range swapTries {
		j, closed, err := p.markClosed(ctx, id, reason)
		if err != nil {
			return j, err
		}
		if !closed {
			continue
		}
		// Do this also if the job was closed before: the earlier call may have been cut off here.
		if j.Held {
			err = p.release(ctx, j, cmp.Or(j.Operation, operation(j.ID, j.Attempt)))
		}
		p.report(ctx, atOperator, sighting{job: j, decision: j.Decision}, err)
		return j, err
	}
	return Job{}, headroom.Errorf(headroom.Contended, nil, "job %q changed %d times in a row", id, swapTries)
}

// markClosed writes into the record of a job that a person has closed it, unless the record says so
// already. It returns false if another handler changed the record meanwhile.
func (p *Pipeline) markClosed(ctx context.Context, id, reason string) (j Job, closed bool, err error) {
	was, found, err := p.jobs.Get(ctx, id)
	switch {
	case err != nil:
		return was, false, err
	case !found:
		return was, false, headroom.Errorf(headroom.NotFound, nil, "there is no job %q", id)
	case !was.Open() && was.Decision != decisionClosed:
		return was, false, conflict("job %q has ended: it is %s", id, was.Status)
	case !was.Open():
		return was, true, nil
	}
	j = was
	if j.Status == Succeeded {
		j.Status, j.Charge = Unpaid, ""
	} else {
		j.Status = Failed
	}
	j.Decision, j.Reason, j.FinishedAt, j.UpdatedAt = decisionClosed, clip(reason), p.now(), p.now()
	closed, err = p.jobs.Swap(ctx, was, j)
	return j, closed, err
}
