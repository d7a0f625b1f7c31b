package main

import (
	"bufio"
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

// progressEvery is how long a line of progress stands before the next.
const progressEvery = time.Second

func (a *app) forgetCommand() *cobra.Command {
	var jobs jobsFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget SUBJECT",
		Short: "Remove all that is stored of a subject, for good",
		Long: `Remove all that is stored of SUBJECT, for good: its plan, what it used, its history, holds, grants and operation ids, of every meter; and with --jobs (or $HEADROOM_JOBS) its jobs, if none of them is open. Of an item that is the application's own, in DynamoDB, only Headroom's attributes go.

What SUBJECT owes to organisations is charged there first. If that fails, nothing of the store is removed.

With --jobs it goes by the rules of the stack, which its scheduled function keeps with the table of jobs: its names of attributes and its meters. A --config that says otherwise is an error.

It can be cut off anywhere: the same command again finishes. See that no work of the subject is under way. Afterwards SUBJECT is one that nobody has seen: it has all its units, and a late repeat of an operation is charged anew.

It asks before it begins, unless --yes is given. Logs, the history of executions, messages in queues and backups are not Headroom's to remove: docs/forget.md says what they keep.`,
		Example: `  headroom forget alice
  headroom forget alice --yes --json
  headroom forget alice --store 'dynamodb:users?region=eu-central-1' --jobs stack-Jobs-ABC`,
		Args: arguments("SUBJECT"),
	}
	jobs.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		subject, ctx := args[0], cmd.Context()
		if subject == "" {
			return usageError("subject is empty")
		}
		if err := a.sure(subject, yes); err != nil {
			return err
		}
		var gone struct{ rows, jobs int }
		var cfg *config.Config
		var err error
		if cmp.Or(jobs.table, a.env("HEADROOM_JOBS")) == "" {
			if cfg, err = a.loadConfig(); err != nil {
				return err
			}
		} else {
			table, err := jobs.open(ctx, a)
			if err != nil {
				return err
			}
			if cfg, _, err = a.stackRules(cmd, table, nil); err != nil {
				return err
			}
			// First the jobs: while one is open nothing is removed.
			if gone.jobs, err = table.Forget(ctx, subject, a.progress("jobs")); err != nil {
				return err
			}
		}
		return a.withEngine(ctx, cfg, func(engine *headroom.Engine) (err error) {
			if gone.rows, err = engine.Forget(ctx, subject, a.progress("rows")); err != nil {
				return err
			}
			if a.json {
				a.printJSON(map[string]any{"subject": subject, "rows": gone.rows, "jobs": gone.jobs})
				return nil
			}
			fmt.Fprintf(a.stdout, "%s is forgotten: %s rows and %s jobs removed\n", printable(subject), thousands(int64(gone.rows)), thousands(int64(gone.jobs)))
			return nil
		})
	}
	return cmd
}

// sure asks whether a subject is to be forgotten, by having its name typed again.
func (a *app) sure(subject string, yes bool) error {
	if yes {
		return nil
	}
	if !isTerminal(a.stdin) {
		return usageError("forget removes %s for good: say --yes, since there is no terminal to ask", printable(subject))
	}
	fmt.Fprintf(a.stderr, "All that is stored of %s will be removed, for good. Type its name to go on: ", printable(subject))
	line := bufio.NewScanner(a.stdin)
	if line.Scan(); line.Text() != subject {
		return usageError("nothing was removed: the name that was typed is another")
	}
	return nil
}

// progress returns what shows how many of a thing are removed, a line at a time and not too often.
func (a *app) progress(what string) func(n int) {
	last := a.now()
	return func(n int) {
		if now := a.now(); now.Sub(last) >= progressEvery {
			last = now
			fmt.Fprintf(a.stderr, "%s %s removed so far\n", thousands(int64(n)), what)
		}
	}
}
