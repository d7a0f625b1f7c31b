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

// progressEvery is the least time between two lines of progress.
const progressEvery = time.Second

func (a *app) forgetCommand() *cobra.Command {
	var jobs jobsFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "forget SUBJECT",
		Short: "Remove everything that is stored about a subject, for good",
		Long: `Remove everything that is stored about SUBJECT, for good: its plan, what it used, its
history, holds, grants and operation ids, for every meter. With --jobs (or $HEADROOM_JOBS), also
remove its jobs, if none of them is open. If an item in DynamoDB is the application's own, only
Headroom's attributes are removed from it.

If SUBJECT still owes something to an organisation, the organisation is charged first. If that
fails, nothing is removed from the store.

With --jobs, the names of attributes and the meters come from the rules of the stack. Its
scheduled function keeps them with the table of jobs. It is an error if a --config says
otherwise.

It is harmless to interrupt this: run the same command again, and it finishes. Make sure that no
work for the subject is under way. Afterwards SUBJECT is unknown. It has all its units, and a
late repeat of an operation is charged again.

The command asks before it begins, unless you give --yes. It cannot remove logs, the history of
executions, messages in queues, or backups. docs/forget.md says what they keep.`,
		Example: `  headroom forget alice
  headroom forget alice --yes --json
  headroom forget alice --store 'dynamodb:users?region=eu-central-1' --jobs stack-Jobs-ABC`,
		Args: arguments("SUBJECT"),
	}
	jobs.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		subject := args[0]
		if subject == "" {
			return usageError("subject is empty")
		}
		if err := a.sure(subject, yes); err != nil {
			return err
		}
		// The jobs go first: while one of them is open, nothing is removed.
		cfg, removed, err := a.forgetJobs(cmd, &jobs, subject)
		if err != nil {
			return err
		}
		return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
			rows, err := engine.Forget(cmd.Context(), subject, a.progress("rows"))
			if err != nil {
				return err
			}
			if a.json {
				a.printJSON(map[string]any{"subject": subject, "rows": rows, "jobs": removed})
				return nil
			}
			fmt.Fprintf(a.stdout, "%s is forgotten: %s rows and %s jobs removed\n",
				printable(subject), thousands(int64(rows)), thousands(int64(removed)))
			return nil
		})
	}
	return cmd
}

// forgetJobs removes the jobs of a subject, if a table of jobs is named, and says how many they
// were. It also returns the configuration by which the store is to be read: the stack's, or that of
// the flags.
func (a *app) forgetJobs(cmd *cobra.Command, jobs *jobsFlags, subject string) (cfg *config.Config, removed int, err error) {
	if cmp.Or(jobs.table, a.env("HEADROOM_JOBS")) == "" {
		cfg, err = a.loadConfig()
		return cfg, 0, err
	}
	table, err := jobs.open(cmd.Context(), a)
	if err != nil {
		return nil, 0, err
	}
	if cfg, _, err = a.stackRules(cmd, table, nil); err != nil {
		return nil, 0, err
	}
	removed, err = table.Forget(cmd.Context(), subject, a.progress("jobs"))
	return cfg, removed, err
}

// sure asks whether to forget a subject. To say yes, a person types its name again.
func (a *app) sure(subject string, yes bool) error {
	if yes {
		return nil
	}
	if !isTerminal(a.stdin) {
		return usageError("forget removes %s for good; give --yes, since there is no terminal to ask", printable(subject))
	}
	a.tell("Everything that is stored about %s will be removed, for good. Type its name to go on: ", printable(subject))
	line := bufio.NewScanner(a.stdin)
	if line.Scan(); line.Text() != subject {
		return usageError("nothing was removed, since you typed another name")
	}
	return nil
}

// progress returns a function that prints how many things are removed, though not too often.
func (a *app) progress(what string) func(n int) {
	last := a.now()
	return func(n int) {
		if now := a.now(); now.Sub(last) >= progressEvery {
			last = now
			a.tell("%s %s removed so far\n", thousands(int64(n)), what)
		}
	}
}
