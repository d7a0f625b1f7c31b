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
)

// deadHidden is how long a dead letter stays hidden from others while it is looked at, in seconds.
const deadHidden = 60

// deadFlags name the dead letters.
type deadFlags struct {
	jobs  jobsFlags
	queue string
	most  int
}

func (f *deadFlags) flags(cmd *cobra.Command) {
	f.jobs.flags(cmd)
	cmd.Flags().StringVar(&f.queue, "dead", "", "URL of the dead-letter queue, an output of the stack (default: $HEADROOM_DEAD_LETTERS)")
	cmd.Flags().IntVar(&f.most, "most", 100, "stop after so many")
}

// deadLetter is a message that the queue has given up.
type deadLetter struct {
	pipeline.Letter
	id, handle string
	sent       time.Time
	received   int // how often
}

// each reads dead letters and lets use look at each: it returns whether the letter stays. One that
// stays can be seen by others again at the end.
func (f *deadFlags) each(ctx context.Context, a *app, use func(*sqs.Client, deadLetter) (stays bool, err error)) error {
	if f.queue = cmp.Or(f.queue, a.env("HEADROOM_DEAD_LETTERS")); f.queue == "" {
		return usageError("--dead is missing: the URL of the dead-letter queue, an output of the stack")
	}
	jobs, err := f.jobs.open(ctx, a)
	if err != nil {
		return err
	}
	sdk, err := f.jobs.at.load(ctx)
	if err != nil {
		return err
	}
	client := sqs.NewFromConfig(sdk)
	var stay []string // receipt handles
	defer func() {
		for _, handle := range stay {
			// Without this they are seen again a minute later.
			client.ChangeMessageVisibility(context.WithoutCancel(ctx), &sqs.ChangeMessageVisibilityInput{QueueUrl: &f.queue, ReceiptHandle: &handle, VisibilityTimeout: 0})
		}
	}()
	seen := map[string]bool{}
	for len(seen) < f.most {
		got, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &f.queue, MaxNumberOfMessages: int32(min(10, f.most-len(seen))), VisibilityTimeout: deadHidden, WaitTimeSeconds: 1,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameApproximateReceiveCount},
		})
		if err != nil {
			return headroom.Errorf(headroom.Unavailable, err, "the dead letters cannot be read")
		}
		if len(got.Messages) == 0 {
			return nil
		}
		for _, m := range got.Messages {
			stay = append(stay, aws.ToString(m.ReceiptHandle))
			if seen[aws.ToString(m.MessageId)] {
				return nil // they come round again
			}
			seen[aws.ToString(m.MessageId)] = true
			l := deadLetter{id: aws.ToString(m.MessageId), handle: aws.ToString(m.ReceiptHandle)}
			if l.Letter, err = pipeline.ReadLetter(ctx, jobs, []byte(aws.ToString(m.Body))); err != nil {
				return err
			}
			if ms, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64); err == nil {
				l.sent = time.UnixMilli(ms).UTC()
			}
			l.received, _ = strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
			stays, err := use(client, l)
			if err != nil {
				return err
			}
			if !stays {
				stay = stay[:len(stay)-1]
				if _, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &f.queue, ReceiptHandle: m.ReceiptHandle}); err != nil {
					return headroom.Errorf(headroom.Unavailable, err, "the dead letter of job %q was sent on and is still there: to do it again is harmless", l.JobID)
				}
			}
		}
	}
	return nil
}

func (l deadLetter) what() string {
	switch {
	case l.Over:
		return "nothing: drop it"
	case l.Body == nil:
		return "nothing: mend and send it anew"
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
		Long: `Read the dead-letter queue and the records of the jobs, and say of each letter why it is there and what "jobs redrive" would do with it. Nothing is changed; letters that are looked at are hidden from others for a moment.

Of a FIFO queue only the first letters of each group can be seen at a time.`,
		Example: `  headroom jobs dead --dead https://sqs.eu-central-1.amazonaws.com/123456789012/stack-DeadLetters-ABC --jobs stack-Jobs-ABC
  headroom jobs dead --json | jq 'select(.user == "alice")'`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := [][]string{{"JOB", "USER", "SENT", "WHY", "REDRIVE"}}
			err := flags.each(cmd.Context(), a, func(_ *sqs.Client, l deadLetter) (bool, error) {
				if a.json {
					a.printJSON(l.json())
				} else {
					rows = append(rows, []string{printable(cmp.Or(l.JobID, "?")), printable(l.UserID), instant(l.sent), printable(l.Reason), l.what()})
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

func (a *app) jobsRedriveCommand() *cobra.Command {
	var flags deadFlags
	var to string
	var only []string
	var drop, dry bool
	cmd := &cobra.Command{
		Use:   "redrive --dead URL --queue URL --jobs TABLE",
		Short: "Send dead letters on to the queue, as a new attempt where the last one failed",
		Long: `Send each dead letter whose job can still run to the queue, and take it from the dead letters. A job that has failed gets a new attempt. A letter of a job that has ended stays, unless --drop is given; so does one that cannot be read.

To run it twice, or to be cut off, is harmless: a job runs once an attempt, and is charged once.`,
		Example: `  headroom jobs redrive --dead "$DEAD_LETTERS_URL" --queue "$QUEUE_URL" --jobs stack-Jobs-ABC --dry-run
  headroom jobs redrive --job episode-17 --job episode-18
  headroom jobs redrive --drop`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to = cmp.Or(to, a.env("HEADROOM_QUEUE")); to == "" {
				return usageError("--queue is missing: the URL of the queue that the consumer reads")
			}
			var sent, dropped, left int
			err := flags.each(cmd.Context(), a, func(client *sqs.Client, l deadLetter) (stays bool, err error) {
				switch {
				case len(only) > 0 && !slices.Contains(only, l.JobID):
					return true, nil
				case l.Over && drop:
					dropped++
				case l.Body == nil:
					left++
					stays = true
				default:
					sent++
					if !dry {
						err = send(cmd.Context(), client, to, [][]byte{l.Body})
					}
				}
				if err == nil && a.json {
					a.printJSON(l.json())
				} else if err == nil && (dry || stays) {
					fmt.Fprintf(a.stdout, "%s: %s (%s)\n", printable(cmp.Or(l.JobID, l.id)), l.what(), printable(l.Reason))
				}
				return stays || dry, err
			})
			if !a.json {
				verb := "sent on"
				if dry {
					verb = "would be sent on"
				}
				fmt.Fprintf(a.stdout, "%s %s, %d dropped, %d left\n", count(int64(sent), "letter"), verb, dropped, left)
			}
			return err
		},
	}
	flags.flags(cmd)
	cmd.Flags().StringVar(&to, "queue", "", "URL of the queue that the consumer reads (default: $HEADROOM_QUEUE)")
	cmd.Flags().StringArrayVar(&only, "job", nil, "only letters of this job; may be given more than once")
	cmd.Flags().BoolVar(&drop, "drop", false, "also delete letters of jobs that have ended")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be done, and do nothing")
	return cmd
}

// noExecutions is for what starts and asks about none.
type noExecutions struct{}

func (noExecutions) Start(context.Context, string, []byte) error {
	return usageError("no state machine is given")
}

func (noExecutions) Describe(context.Context, string) (pipeline.Execution, bool, error) {
	return pipeline.Execution{}, false, usageError("no state machine is given")
}

func (noExecutions) Finished(context.Context, string) ([]byte, bool, error) {
	return nil, false, usageError("no state machine is given")
}

func (a *app) jobsCloseCommand() *cobra.Command {
	var flags jobsFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "close JOB --reason TEXT --jobs TABLE --store dynamodb:TABLE",
		Short: "End an open job by hand, and release what it holds",
		Long: `End a job that is open and will not end by itself, and keep the reason in its record. A job that is queued or runs is failed, and what it holds is released; should its work succeed after all, that counts and is charged. A job whose charge is pending is unpaid for good: it is not charged any more.

A job that has ended is an error. To close a job twice is harmless.`,
		Example: `  headroom jobs close episode-17 --reason "ticket 4711: sent by mistake" --jobs stack-Jobs-ABC --store dynamodb:stack-Users-ABC?ledger=stack-Ledger-ABC`,
		Args:    arguments("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return usageError("--reason is missing: why the job is closed, for whoever asks later")
			}
			jobs, err := flags.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			cfg, _, err := a.stackRules(cmd, jobs, nil)
			if err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
				p, err := pipeline.New(engine, cfg.Catalog, jobs, noExecutions{}, pipeline.Options{Logger: a.logger()})
				if err != nil {
					return err
				}
				j, err := p.Close(cmd.Context(), args[0], reason)
				if err != nil {
					return err
				}
				if a.json {
					a.printJSON(jobJSON(j))
					return nil
				}
				fmt.Fprintf(a.stdout, "%s is closed: %s\n", printable(j.ID), jobStatus(j))
				return nil
			})
		},
	}
	flags.flags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; it stands in the job's record")
	return cmd
}
