package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

// sqsBatch is how many messages one request carries.
const sqsBatch = 10

func (a *app) sendCommand() *cobra.Command {
	var queue, file string
	var at awsFlags
	attempt := 1
	cmd := &cobra.Command{
		Use:   "send [JOB] [USER] [CLASS] [SECONDS] --queue URL",
		Short: "Send one job, or many from a CSV file, to the pipeline's queue",
		Long: `Send a job to the queue of the pipeline on AWS. With --csv, send a job for each line of a file,
whose first line names the columns jobId, userId, voiceQuality and durationSeconds. A column
attempt is for running a failed job again on purpose. Other columns are passed on to the work.

It is harmless to send the same job twice: it runs once, and is charged once. The message group
is the user, so that the queue gives each user a fair share.`,
		Example: `  headroom send episode-17 alice neural 900 --queue https://sqs.eu-central-1.amazonaws.com/123456789012/jobs
  headroom send --csv jobs.csv
  headroom send episode-17 alice neural 900 --attempt 2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				return arguments()(cmd, args)
			}
			return arguments("JOB", "USER", "CLASS", "SECONDS")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if queue = cmp.Or(queue, a.env("HEADROOM_QUEUE")); queue == "" {
				return usageError("--queue is missing: the URL of the queue, which the stack puts out")
			}
			var bodies [][]byte
			var err error
			if file != "" {
				bodies, err = readJobs(file, a.stdin)
			} else {
				var seconds float64
				if seconds, err = strconv.ParseFloat(args[3], 64); err != nil {
					return usageError("SECONDS %q: want a number", args[3])
				}
				var body []byte
				body, err = pipeline.Send(args[0], args[1], args[2], seconds, attempt, nil)
				bodies = append(bodies, body)
			}
			if err != nil {
				return err
			}
			sdk, err := at.load(cmd.Context())
			if err != nil {
				return err
			}
			if err := send(cmd.Context(), sqs.NewFromConfig(sdk), queue, bodies); err != nil {
				return err
			}
			if a.json {
				a.printJSON(map[string]any{"sent": len(bodies)})
				return nil
			}
			fmt.Fprintf(a.stdout, "sent: %s\n", count(int64(len(bodies)), "job"))
			return nil
		},
	}
	cmd.Flags().StringVar(&queue, "queue", "", "URL of the queue (default: $HEADROOM_QUEUE)")
	cmd.Flags().StringVar(&file, "csv", "", "file of jobs, or - for standard input")
	cmd.Flags().IntVar(&attempt, "attempt", 1, "2 or more, to run a job again on purpose after its last attempt\nhas failed")
	at.flags(cmd)
	return cmd
}

func send(ctx context.Context, client *sqs.Client, queue string, bodies [][]byte) error {
	for from := 0; from < len(bodies); from += sqsBatch {
		in := &sqs.SendMessageBatchInput{QueueUrl: &queue}
		for i, body := range bodies[from:min(from+sqsBatch, len(bodies))] {
			e := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(string(body))}
			e.MessageGroupId, e.MessageDeduplicationId = groupOf(queue, body)
			in.Entries = append(in.Entries, e)
		}
		out, err := client.SendMessageBatch(ctx, in)
		if err == nil && len(out.Failed) > 0 {
			err = fmt.Errorf("%s", aws.ToString(out.Failed[0].Message))
		}
		if err != nil {
			return headroom.Errorf(headroom.Unavailable, err,
				"the queue took %d of %d jobs and no more; it is harmless to send all of them again", from, len(bodies))
		}
	}
	return nil
}

// groupOf returns the message group of a job, which is its user. A standard queue then gives each
// user a fair share, so that a user who sends thousands of jobs does not make all others wait. A
// FIFO queue keeps the order of each user's jobs. It also needs to know which messages are the
// same.
func groupOf(queue string, body []byte) (group, same *string) {
	var m struct {
		UserID string `json:"userId"`
	}
	_ = json.Unmarshal(body, &m) // pipeline.Send made this body
	group = &m.UserID
	if plain := regexp.MustCompile(`^[!-~]{1,128}$`); !plain.MatchString(m.UserID) {
		group = aws.String(fmt.Sprintf("%x", sha256.Sum256([]byte(m.UserID))))
	}
	if strings.HasSuffix(queue, ".fifo") {
		same = aws.String(fmt.Sprintf("%x", sha256.Sum256(body)))
	}
	return group, same
}

// awsFlags are the flags of verbs that talk to AWS, apart from the store.
type awsFlags struct{ region, endpoint string }

func (f *awsFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.region, "region", "", "AWS region (default: from the SDK's configuration)")
	cmd.Flags().StringVar(&f.endpoint, "endpoint", "", "address of an emulator, in place of AWS")
}

func (f *awsFlags) load(ctx context.Context) (aws.Config, error) {
	var load []func(*config.LoadOptions) error
	if f.region != "" {
		load = append(load, config.WithRegion(f.region))
	}
	if f.endpoint != "" {
		load = append(load, config.WithBaseEndpoint(f.endpoint))
	}
	sdk, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return sdk, headroom.Errorf(headroom.Invalid, err, "the AWS configuration cannot be loaded")
	}
	if sdk.Region == "" {
		return sdk, usageError("there is no AWS region; give --region, or set AWS_REGION or a region in the profile")
	}
	return sdk, nil
}
