package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/pipeline"
	"github.com/lumcast/headroom/pipeline/onaws"
)

func (a *app) jobsCommand() *cobra.Command {
	return group("jobs", "List, show, redrive and close the jobs of the pipeline",
		a.jobsListCommand(), a.jobsShowCommand(), a.jobsDeadCommand(), a.jobsRedriveCommand(), a.jobsCloseCommand())
}

// jobsFlags say where the table of jobs is.
type jobsFlags struct {
	table string
	at    awsFlags
}

func (f *jobsFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.table, "jobs", "", "DynamoDB table of jobs, which the stack puts out (default:\n$HEADROOM_JOBS)")
	f.at.flags(cmd)
}

func (f *jobsFlags) open(ctx context.Context, a *app) (*onaws.Jobs, error) {
	table := cmp.Or(f.table, a.env("HEADROOM_JOBS"))
	if table == "" {
		return nil, usageError("--jobs is missing: the name of the table of jobs")
	}
	sdk, err := f.at.load(ctx)
	if err != nil {
		return nil, err
	}
	return &onaws.Jobs{Client: dynamodb.NewFromConfig(sdk), Table: table}, nil
}

func (a *app) jobsListCommand() *cobra.Command {
	var flags jobsFlags
	var filter pipeline.Filter
	var status string
	var open bool
	most := 100
	cmd := &cobra.Command{
		Use:   "list --jobs TABLE",
		Short: "List jobs, by user and status",
		Long: `List the jobs in the table, in no particular order. This reads the whole table, so it costs
more the longer the table is.

With --open it reads the index of open jobs instead, which are queued, running or still to be
charged. The job that has been open for longest comes first.`,
		Example: `  headroom jobs list --jobs stack-Jobs-ABC --user alice
  headroom jobs list --jobs stack-Jobs-ABC --status over_quota --most 20
  headroom jobs list --jobs stack-Jobs-ABC --open`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter.Status = pipeline.Status(status)
			switch filter.Status {
			case "", pipeline.Queued, pipeline.Running, pipeline.Succeeded, pipeline.Failed, pipeline.OverQuota, pipeline.Unpaid:
			default:
				return usageError("--status %q: want queued, running, succeeded, failed, over_quota or unpaid", status)
			}
			jobs, err := flags.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			if open {
				return a.listOpen(cmd.Context(), jobs, filter, most)
			}
			var found []pipeline.Job
			if err := jobs.List(cmd.Context(), filter, func(j pipeline.Job) bool {
				found = append(found, j)
				return len(found) < most
			}); err != nil {
				return err
			}
			a.printJobs(found)
			return nil
		},
	}
	flags.flags(cmd)
	cmd.Flags().StringVar(&filter.UserID, "user", "", "only jobs of this user")
	cmd.Flags().StringVar(&status, "status", "", "only jobs with this status: queued, running, succeeded, failed,\nover_quota or unpaid")
	cmd.Flags().IntVar(&most, "most", 100, "stop after so many")
	cmd.Flags().BoolVar(&open, "open", false, "only open jobs, from their index, the oldest first")
	return cmd
}

// listOpen lists open jobs from their index.
func (a *app) listOpen(ctx context.Context, jobs *onaws.Jobs, f pipeline.Filter, most int) error {
	rows := [][]string{{"JOB", "USER", "STATUS", "OPEN SINCE", "FOR", "CHANGED"}}
	var failed error
	n := 0
	err := jobs.Open(ctx, pipeline.Opened{}, a.now().Add(time.Minute), func(o pipeline.Opened) bool {
		j, found, err := jobs.Get(ctx, o.ID)
		if err != nil {
			failed = err
			return false
		}
		// The index may lag behind the table a little.
		if !found || !j.Open() || f.UserID != "" && f.UserID != j.UserID || f.Status != "" && f.Status != j.Status {
			return true
		}
		n++
		if a.json {
			a.printJSON(jobJSON(j))
		} else {
			rows = append(rows, []string{
				printable(j.ID), printable(j.UserID), jobStatus(j), instant(o.Since), span(a.now().Sub(o.Since)), instant(j.UpdatedAt),
			})
		}
		return n < most
	})
	if err = cmp.Or(failed, err); err != nil {
		return err
	}
	if !a.json {
		table(a.stdout, "llllrl", rows)
	}
	return nil
}

func (a *app) jobsShowCommand() *cobra.Command {
	var flags jobsFlags
	cmd := &cobra.Command{
		Use:     "show JOB --jobs TABLE",
		Short:   "Show one job, and why it was refused or failed",
		Long:    `Show one job: what it costs, how it was decided, and why it was refused or failed.`,
		Example: `  headroom jobs show episode-17 --jobs stack-Jobs-ABC`,
		Args:    arguments("JOB"),
		RunE: func(cmd *cobra.Command, args []string) error {
			jobs, err := flags.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			j, found, err := jobs.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !found {
				return headroom.Errorf(headroom.NotFound, nil, "there is no job %q", args[0])
			}
			if a.json {
				a.printJSON(jobJSON(j))
				return nil
			}
			rows := [][]string{
				{"job", printable(j.ID)}, {"user", printable(j.UserID)}, {"status", jobStatus(j)}, {"why", printable(j.Reason)},
				{"work", fmt.Sprintf("%s, %g seconds", printable(j.Class), j.Seconds)}, {"cost", thousands(j.Cost)},
				{"plan", printable(j.Plan)}, {"window", j.Week}, {"decision", j.Decision},
				{"attempt", fmt.Sprint(j.Attempt)}, {"execution", pipeline.ExecutionName(j.ID, max(j.Attempt, 1))},
			}
			for _, at := range []struct {
				name string
				time time.Time
			}{{"requested", j.RequestedAt}, {"started", j.StartedAt}, {"finished", j.FinishedAt}, {"changed", j.UpdatedAt}} {
				if !at.time.IsZero() {
					rows = append(rows, []string{at.name, instant(at.time)})
				}
			}
			table(a.stdout, "ll", rows)
			return nil
		},
	}
	flags.flags(cmd)
	return cmd
}

// printJobs lists jobs.
func (a *app) printJobs(jobs []pipeline.Job) {
	rows := [][]string{{"JOB", "USER", "STATUS", "COST", "WINDOW", "WHY"}}
	for _, j := range jobs {
		if a.json {
			a.printJSON(jobJSON(j))
			continue
		}
		rows = append(rows, []string{printable(j.ID), printable(j.UserID), jobStatus(j), thousands(j.Cost), j.Week, printable(j.Reason)})
	}
	if !a.json {
		table(a.stdout, "lllrll", rows)
	}
}

// jobStatus returns the status of a job, with its charge if it succeeded.
func jobStatus(j pipeline.Job) string {
	text := string(j.Status)
	if j.Charge != "" {
		text += ", " + string(j.Charge)
	}
	if j.Decision == string(headroom.ReasonRecorded) {
		text += " past the limit"
	}
	return text
}

func jobJSON(j pipeline.Job) any {
	type times struct {
		Requested time.Time `json:"requested,omitzero"`
		Started   time.Time `json:"started,omitzero"`
		Finished  time.Time `json:"finished,omitzero"`
		Changed   time.Time `json:"changed,omitzero"`
	}
	return struct {
		ID       string          `json:"job"`
		User     string          `json:"user"`
		Status   pipeline.Status `json:"status"`
		Charge   pipeline.Charge `json:"charge,omitempty"`
		Attempt  int             `json:"attempt"`
		Class    string          `json:"class"`
		Seconds  float64         `json:"seconds"`
		Cost     int64           `json:"cost"`
		Plan     string          `json:"plan"`
		Window   string          `json:"window"`
		Decision string          `json:"decision"`
		Reason   string          `json:"reason,omitempty"`
		Times    times           `json:"times"`
	}{
		j.ID, j.UserID, j.Status, j.Charge, j.Attempt, j.Class, j.Seconds, j.Cost, j.Plan, j.Week, j.Decision, j.Reason,
		times{j.RequestedAt, j.StartedAt, j.FinishedAt, j.UpdatedAt},
	}
}
