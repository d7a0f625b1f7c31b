package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

// deadHidden is how long a dead letter stays hidden from others while it is looked at, in seconds.
const deadHidden = 60

// deadFlags say where the dead letters are.
type deadFlags struct {
	jobs  jobsFlags
	queue string
	most  int
}

func (f *deadFlags) flags(cmd *cobra.Command) {
	f.jobs.flags(cmd)
	cmd.Flags().StringVar(&f.queue, "dead", "", "URL of the dead-letter queue, which the stack puts out\n(default: $HEADROOM_DEAD_LETTERS)")
	cmd.Flags().IntVar(&f.most, "most", 100, "stop after so many")
}

// deadLetter is a message that the queue has given up on.
type deadLetter struct {
	pipeline.Letter
	id, handle string
	sent       time.Time
	received   int // how often
}

// deadLetters reads a dead-letter queue.
type deadLetters struct {
	client *sqs.Client
	queue  string
	jobs   *onaws.Jobs
	most   int

	seen map[string]bool // the ids of the messages so far
	stay []string        // the receipt handles of the letters that stay
}

func (f *deadFlags) open(ctx context.Context, a *app) (*deadLetters, error) {
	queue := cmp.Or(f.queue, a.env("HEADROOM_DEAD_LETTERS"))
	if queue == "" {
		return nil, usageError("--dead is missing: the URL of the dead-letter queue, which the stack puts out")
	}
	jobs, err := f.jobs.open(ctx, a)
	if err != nil {
		return nil, err
	}
	sdk, err := f.jobs.at.load(ctx)
	if err != nil {
		return nil, err
	}
	return &deadLetters{client: sqs.NewFromConfig(sdk), queue: queue, jobs: jobs, most: f.most, seen: map[string]bool{}}, nil
}

// each calls use with one dead letter after the other, and deletes those that use says do not stay.
// At the end, others can see the letters that stay again.
func (d *deadLetters) each(ctx context.Context, use func(deadLetter) (stays bool, err error)) error {
	defer d.show(context.WithoutCancel(ctx))
	for len(d.seen) < d.most {
		messages, err := d.receive(ctx)
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, m := range messages {
			id := aws.ToString(m.MessageId)
			if d.seen[id] {
				d.stay = append(d.stay, aws.ToString(m.ReceiptHandle))
				return nil // the queue has come round to its first letter again
			}
			d.seen[id] = true
			if err := d.one(ctx, m, use); err != nil {
				return err
			}
		}
	}
	return nil
}

// one calls use with a dead letter, and deletes it or notes that it stays.
func (d *deadLetters) one(ctx context.Context, m types.Message, use func(deadLetter) (bool, error)) error {
	l, err := d.read(ctx, m)
	stays := true
	if err == nil {
		stays, err = use(l)
	}
	if err != nil || stays {
		d.stay = append(d.stay, aws.ToString(m.ReceiptHandle))
		return err
	}
	return d.remove(ctx, l)
}

// receive returns some messages, and hides them from others for a while.
func (d *deadLetters) receive(ctx context.Context) ([]types.Message, error) {
	got, err := d.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &d.queue, MaxNumberOfMessages: int32(min(10, d.most-len(d.seen))), VisibilityTimeout: deadHidden, WaitTimeSeconds: 1,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameApproximateReceiveCount,
		},
	})
	if err != nil {
		return nil, headroom.Errorf(headroom.Unavailable, err, "the dead letters cannot be read")
	}
	return got.Messages, nil
}

// read makes a dead letter of a message and the record of its job.
func (d *deadLetters) read(ctx context.Context, m types.Message) (l deadLetter, err error) {
	l.id, l.handle = aws.ToString(m.MessageId), aws.ToString(m.ReceiptHandle)
	if l.Letter, err = pipeline.ReadLetter(ctx, d.jobs, []byte(aws.ToString(m.Body))); err != nil {
		return l, err
	}
	if ms, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64); err == nil {
		l.sent = time.UnixMilli(ms).UTC()
	}
	l.received, _ = strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	return l, nil
}

func (d *deadLetters) remove(ctx context.Context, l deadLetter) error {
	if _, err := d.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &d.queue, ReceiptHandle: &l.handle}); err != nil {
		return headroom.Errorf(headroom.Unavailable, err, "the dead letter of job %q was sent on, but is still there; it is harmless to send it again", l.JobID)
	}
	return nil
}

// show lets others see the letters that stay. If that fails, they are visible again after
// deadHidden.
func (d *deadLetters) show(ctx context.Context) {
	for _, handle := range d.stay {
		_, _ = d.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
			QueueUrl: &d.queue, ReceiptHandle: &handle, VisibilityTimeout: 0,
		})
	}
}

func (l deadLetter) what() string {
	switch {
	case l.Over:
		return "nothing: drop it"
	case l.Body == nil:
		return "nothing: correct it and send it anew"
	case l.Next > l.Attempt:
		return fmt.Sprintf("send on as attempt %d", l.Next)
	}
	return "send on"
}

func (l deadLetter) json() any {
	return struct {
		Message string    `json:"message"`
		Job     string    `json:"job,omitempty"`
		User    string    `json:"user,omitempty"`
		Attempt int       `json:"attempt,omitempty"`
		Sent    time.Time `json:"sent,omitzero"`
		Tries   int       `json:"received"`
		Reason  string    `json:"reason"`
		Redrive string    `json:"redrive"`
	}{l.id, l.JobID, l.UserID, l.Attempt, l.sent, l.received, l.Reason, l.what()}
}

func (a *app) jobsDeadCommand() *cobra.Command {
	var flags deadFlags
	cmd := &cobra.Command{
		Use:   "dead --dead URL --jobs TABLE",
		Short: "List dead letters, and why each one is there",
		Long: `Read the dead-letter queue and the records of the jobs. Say for each letter why it is there
and what "jobs redrive" would do with it. Nothing is changed. While letters are looked at,
others cannot see them for a moment.

A FIFO queue shows only the first letters of each group at a time.`,
		Example: `  headroom jobs dead --dead https://sqs.eu-central-1.amazonaws.com/123456789012/stack-DeadLetters-ABC --jobs stack-Jobs-ABC
  headroom jobs dead --json | jq 'select(.user == "alice")'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := [][]string{{"JOB", "USER", "SENT", "WHY", "REDRIVE"}}
			dead, err := flags.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			err = dead.each(cmd.Context(), func(l deadLetter) (stays bool, err error) {
				if a.json {
					a.printJSON(l.json())
				} else {
					rows = append(rows, []string{
						printable(cmp.Or(l.JobID, "?")), printable(l.UserID), instant(l.sent), printable(l.Reason), l.what(),
					})
				}
				return true, nil
			})
			if err == nil && !a.json {
				table(a.stdout, "lllll", rows)
			}
			return err
		},
	}
	flags.flags(cmd)
	return cmd
}

// redrive moves dead letters back to the queue.
type redrive struct {
	app   *app
	from  deadFlags
	queue string
	only  []string // ids of jobs; empty: all
	drop  bool
	dry   bool

	sent, dropped, left int
}

func (a *app) jobsRedriveCommand() *cobra.Command {
	r := redrive{app: a}
	cmd := &cobra.Command{
		Use:   "redrive --dead URL --queue URL --jobs TABLE",
		Short: "Send dead letters back to the queue, as a new attempt where the last one failed",
		Long: `Move each dead letter whose job can still run back to the queue. A job that has failed gets a
new attempt. A letter stays where it is if it cannot be read, or if its job has ended. With
--drop, the letters of jobs that have ended are deleted.

It is harmless to run this twice, or to interrupt it: a job runs only once for each attempt,
and is charged only once.`,
		Example: `  headroom jobs redrive --dead "$DEAD_LETTERS_URL" --queue "$QUEUE_URL" --jobs stack-Jobs-ABC --dry-run
  headroom jobs redrive --job episode-17 --job episode-18
  headroom jobs redrive --drop`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context()) },
	}
	r.from.flags(cmd)
	cmd.Flags().StringVar(&r.queue, "queue", "", "URL of the queue that the consumer reads (default:\n$HEADROOM_QUEUE)")
	cmd.Flags().StringArrayVar(&r.only, "job", nil, "only the letters of this job; may be given more than once")
	cmd.Flags().BoolVar(&r.drop, "drop", false, "delete the letters of jobs that have ended")
	cmd.Flags().BoolVar(&r.dry, "dry-run", false, "say what would be done, and change nothing")
	return cmd
}

func (r *redrive) run(ctx context.Context) error {
	if r.queue = cmp.Or(r.queue, r.app.env("HEADROOM_QUEUE")); r.queue == "" {
		return usageError("--queue is missing: the URL of the queue that the consumer reads")
	}
	dead, err := r.from.open(ctx, r.app)
	if err != nil {
		return err
	}
	err = dead.each(ctx, func(l deadLetter) (stays bool, err error) { return r.letter(ctx, dead.client, l) })
	if !r.app.json {
		verb := "sent on"
		if r.dry {
			verb = "would be sent on"
		}
		fmt.Fprintf(r.app.stdout, "%s %s, %d dropped, %d left\n", count(int64(r.sent), "letter"), verb, r.dropped, r.left)
	}
	return err
}

// letter handles one dead letter, and says whether it stays.
func (r *redrive) letter(ctx context.Context, client *sqs.Client, l deadLetter) (stays bool, err error) {
	switch {
	case len(r.only) > 0 && !slices.Contains(r.only, l.JobID):
		return true, nil
	case l.Over && r.drop:
		r.dropped++
	case l.Body == nil:
		r.left++
		stays = true
	default:
		r.sent++
		if !r.dry {
			err = send(ctx, client, r.queue, [][]byte{l.Body})
		}
	}
	switch {
	case err != nil:
		return true, err
	case r.app.json:
		r.app.printJSON(l.json())
	case r.dry || stays:
		fmt.Fprintf(r.app.stdout, "%s: %s (%s)\n", printable(cmp.Or(l.JobID, l.id)), l.what(), printable(l.Reason))
	}
	return stays || r.dry, nil
}
