package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
)

// sampleJobs are the jobs that "pipeline run" runs without a file. One user sends more at once than
// the week allows. Some work fails, some takes longer than was asked for, and one class has no
// price.
const sampleJobs = `jobId,userId,voiceQuality,durationSeconds,fails,becomes
tides-1,alice,neural,900,,
tides-2,alice,neural,900,,
tides-3,alice,neural,900,,
tides-4,alice,neural,900,,
tides-5,alice,neural,900,,
tides-6,alice,neural,900,,
tides-7,alice,neural,900,,
tides-8,alice,neural,900,,
moons-1,bob,generative,1800,,
moons-2,bob,generative,600,no such voice,
moons-3,bob,standard,600,,1500
moons-4,bob,velvet,600,,
`

func (a *app) pipelineCommand() *cobra.Command {
	var rules pipelineFlags
	var file string
	at := timeFlag{name: "at"}
	run := &cobra.Command{
		Use:   "run",
		Short: "Run jobs through queue, consumer, work and callback in this process",
		Long: `Run jobs through the same code as on AWS, but with a queue, a job table and a state machine in
this process. The quota lies in the store that --store names. This is a way to try the pipeline
without AWS. All messages are received before any work ends, as in a burst.

The jobs come from a CSV file, as for "headroom send". If a job has a column "fails", its work
fails with that message. A column "becomes" gives the true length of the result in seconds.
Without a file, a few sample jobs run.`,
		Example: `  headroom pipeline run --store memory:
  headroom pipeline run --store memory: --mode hold
  headroom pipeline run --csv jobs.csv --over refuse`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts, err := rules.options(slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			if !at.IsZero() {
				opts.Clock = func() time.Time { return at.Time }
			}
			from, in := "-", io.Reader(strings.NewReader(sampleJobs))
			if file != "" {
				from, in = file, a.stdin
			}
			bodies, err := readJobs(from, in)
			if err != nil {
				return err
			}
			cfg, err := a.loadConfig()
			if err != nil {
				return err
			}
			return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
				local := &localRun{jobs: &pipeline.Memory{}, known: map[string]pipeline.Execution{}}
				if local.p, err = pipeline.New(engine, cfg.Catalog, local.jobs, local, opts); err != nil {
					return err
				}
				if err := local.run(cmd.Context(), bodies); err != nil {
					return err
				}
				return a.printRun(cmd.Context(), local, engine, at.Time)
			})
		},
	}
	rules.flags(run)
	run.Flags().StringVar(&file, "csv", "", "file of jobs, or - for standard input")
	run.Flags().Var(&at, "at", atUsage)
	return group("pipeline", "Try the pipeline without AWS", run)
}

// localRun is a queue and a state machine in this process.
type localRun struct {
	p     *pipeline.Pipeline
	jobs  *pipeline.Memory
	order []string // the names of executions, in the order in which they started
	known map[string]pipeline.Execution
	dead  []string // the bodies of messages that the consumer gave back
}

// Start implements pipeline.Executions.
func (l *localRun) Start(_ context.Context, name string, input []byte) error {
	if _, ok := l.known[name]; !ok {
		l.known[name] = pipeline.Execution{Status: "RUNNING", Input: input}
		l.order = append(l.order, name)
	}
	return nil
}

// Describe implements pipeline.Executions.
func (l *localRun) Describe(_ context.Context, name string) (pipeline.Execution, bool, error) {
	x, ok := l.known[name]
	return x, ok, nil
}

// Finished implements pipeline.Executions. Here no execution ends without its last step.
func (l *localRun) Finished(context.Context, string) ([]byte, bool, error) { return nil, false, nil }

func (l *localRun) run(ctx context.Context, bodies [][]byte) error {
	for batch := range slices.Chunk(bodies, sqsBatch) {
		var b pipeline.Batch
		for i, body := range batch {
			b.Records = append(b.Records, pipeline.Delivery{MessageID: fmt.Sprint(i), Body: string(body)})
		}
		out, err := l.p.Consume(ctx, b)
		if err != nil {
			return err
		}
		for _, f := range out.Items {
			for i, d := range b.Records {
				if d.MessageID == f.MessageID {
					l.dead = append(l.dead, b.Records[i].Body)
				}
			}
		}
	}
	for _, name := range l.order {
		event, err := lastStep(name, l.known[name])
		if err != nil {
			return err
		}
		if _, err := l.p.Callback(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

// lastStep does the work of an execution, which is nothing, and returns the event that the state
// machine's last step would send.
func lastStep(name string, x pipeline.Execution) ([]byte, error) {
	var input struct {
		Fails   string `json:"fails"`
		Becomes string `json:"becomes"`
	}
	if err := json.Unmarshal(x.Input, &input); err != nil {
		return nil, usageError("the input of %s: %v", name, err)
	}
	event := map[string]any{
		"execution": name, "status": "SUCCEEDED", "input": json.RawMessage(x.Input), "result": map[string]any{},
	}
	if input.Becomes != "" {
		seconds, err := strconv.ParseFloat(input.Becomes, 64)
		if err != nil {
			return nil, usageError("becomes %q: want a number", input.Becomes)
		}
		event["result"] = map[string]any{"durationSeconds": seconds}
	}
	if input.Fails != "" {
		event["status"], event["error"] = "FAILED", map[string]string{"Error": "WorkFailed", "Cause": input.Fails}
	}
	return json.Marshal(event)
}

func (a *app) printRun(ctx context.Context, l *localRun, engine *headroom.Engine, now time.Time) error {
	var jobs []pipeline.Job
	users := map[string]bool{}
	if err := l.jobs.List(ctx, pipeline.Filter{}, func(j pipeline.Job) bool {
		jobs, users[j.UserID] = append(jobs, j), true
		return true
	}); err != nil {
		return err
	}
	slices.SortFunc(jobs, func(x, y pipeline.Job) int {
		return cmp.Or(strings.Compare(x.UserID, y.UserID), strings.Compare(x.ID, y.ID))
	})
	a.printJobs(jobs)
	for _, body := range l.dead {
		a.tell("headroom: this message cannot be handled, and would become a dead letter: %s\n", printable(body))
	}
	if a.json {
		return nil
	}
	fmt.Fprintln(a.stdout)
	for _, user := range slices.Sorted(maps.Keys(users)) {
		u, err := engine.Usage(ctx, headroom.UsageRequest{Subject: user, Meter: "slots", Now: now})
		if err != nil {
			return err
		}
		for _, limit := range u.Limits {
			fmt.Fprintf(a.stdout, "%s: %s of %s slots used in %s\n",
				printable(user), thousands(limit.Used), thousands(limit.Limit), limit.Window.Key)
		}
	}
	return nil
}
