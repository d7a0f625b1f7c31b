package main

import (
	"context"
	"encoding/json"
	"fmt"
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

// sampleJobs are what "pipeline run" shows without a file: a burst that is more than the week has, work that fails, work that comes out longer, and a class that nobody sells.
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
		Long: `Run jobs through the same handlers as on AWS, with a queue, a job table and a state machine in this process and the quota in the store of --store: a first look that needs no AWS. All messages are taken before any work ends, as in a burst.

The jobs come from a CSV file, as for "headroom send"; a column "fails" lets the work of a job fail with that message, a column "becomes" says how many seconds it has become. Without a file a few sample jobs run.`,
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
			in := strings.NewReader(sampleJobs)
			bodies, err := readJobs("-", in)
			if file != "" {
				bodies, err = readJobs(file, a.stdin)
			}
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
	run.Flags().StringVar(&file, "csv", "", "file of jobs; - is standard input")
	run.Flags().Var(&at, "at", "run as of this time, for trials: it takes the place of every clock")
	return group("pipeline", "Try the pipeline without AWS", run)
}

// localRun is queue and state machine in one process.
type localRun struct {
	p     *pipeline.Pipeline
	jobs  *pipeline.Memory
	order []string // names of executions as they started
	known map[string]pipeline.Execution
	dead  []string // bodies that no delivery could place
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

// Finished implements pipeline.Executions. No execution here ends without its last step.
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

// lastStep does the work of an execution, which is to do nothing, and makes the event of the state machine's last step.
func lastStep(name string, x pipeline.Execution) ([]byte, error) {
	var input struct {
		Fails   string `json:"fails"`
		Becomes string `json:"becomes"`
	}
	if err := json.Unmarshal(x.Input, &input); err != nil {
		return nil, usageError("the input of %s: %v", name, err)
	}
	event := map[string]any{"execution": name, "status": "SUCCEEDED", "input": json.RawMessage(x.Input), "result": map[string]any{}}
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
	slices.SortFunc(jobs, func(x, y pipeline.Job) int { return strings.Compare(x.UserID+"\n"+x.ID, y.UserID+"\n"+y.ID) })
	a.printJobs(jobs)
	for _, body := range l.dead {
		fmt.Fprintf(a.stderr, "headroom: could not be handled, and would end as a dead letter: %s\n", printable(body))
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
			fmt.Fprintf(a.stdout, "%s: %s of %s slots used in %s\n", printable(user), thousands(limit.Used), thousands(limit.Limit), limit.Window.Key)
		}
	}
	return nil
}
