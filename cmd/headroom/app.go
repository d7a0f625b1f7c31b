package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

// Exit statuses.
const (
	statusAllowed = 0
	statusRefused = 1
	statusError   = 2
)

// Codes of errors that are of this program rather than of the library.
const (
	codeInterrupted headroom.Code = "interrupted" // by a signal, before the work was done
	codeFailed      headroom.Code = "failed"      // for another reason, which the message gives
)

// errRefused ends a verb whose answer, already printed, is no.
var errRefused = errors.New("refused")

// app is what all verbs share.
type app struct {
	stdin  io.Reader
	stdout *bufio.Writer
	stderr io.Writer
	env    func(string) string
	now    func() time.Time

	// Flags of every verb.
	store  string
	config string
	json   bool
}

// run is the whole program. It returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	a := &app{stdin: stdin, stdout: bufio.NewWriter(&screen{to: stdout}), stderr: &screen{to: stderr}, env: env, now: time.Now}
	return a.run(args)
}

func (a *app) run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks to finish; a second one ends the process at once.
	context.AfterFunc(ctx, stop)

	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	// A fault in the flags comes before --json has been read.
	a.json = a.json || slices.Contains(args, "--json")
	status := a.report(err)
	if err := a.stdout.Flush(); err != nil {
		fmt.Fprintf(a.stderr, "headroom: the answer cannot be written: %v\n", err)
		return statusError
	}
	return status
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "headroom",
		Short: "Enforce quotas: exactly once, never over, never refused wrongly",
		Long: `Headroom decides whether a subject may spend units of a meter in the present calendar window, and records what was spent.

Exit status: 0 allowed or done, 1 refused, 2 error. An error is one line on stderr; with --json it is also {"error":{"code","message"}} on stdout.`,
		Example: `  headroom preflight alice 30
  headroom deduct alice 30 --operation job-17
  headroom usage alice`,
		Version:           version(),
		Args:              knownVerb,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetVersionTemplate("headroom {{.Version}}\n")
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)

	flags := root.PersistentFlags()
	flags.StringVar(&a.store, "store", "", "where state is kept: embedded:DIR, memory: or dynamodb:TABLE?region=R&endpoint=URL&ledger=TABLE (default: $HEADROOM_STORE, else embedded: in the user's data folder)")
	flags.StringVar(&a.config, "config", "", "plans, prices and more, see \"headroom plans check --help\" (default: $HEADROOM_CONFIG, else the built-in plan: 200 slots a week)")
	flags.BoolVar(&a.json, "json", false, "answer in JSON, one object a line")

	root.AddCommand(a.preflightCommand(), a.deductCommand(), a.usageCommand(), a.historyCommand(), a.explainCommand(), a.plansCommand(),
		a.holdCommand(), a.settleCommand(), a.releaseCommand(), a.extendCommand(), a.refundCommand(), a.grantCommand(),
		a.weekCommand(), a.costCommand(), a.replayCommand(), a.whatifCommand(), a.clockCommand(), a.tablesCommand(),
		a.sendCommand(), a.jobsCommand(), a.reconcileCommand(), a.pipelineCommand(), a.forgetCommand())
	return root
}

// report prints an error and returns the exit status that goes with it.
func (a *app) report(err error) int {
	if err == nil {
		return statusAllowed
	}
	// A store that does not close after a refusal is an error, though the two are joined.
	if err == errRefused {
		return statusRefused
	}
	fmt.Fprintf(a.stderr, "headroom: %v\n", err)
	var fault *config.Error
	if errors.As(err, &fault) {
		fmt.Fprintln(a.stderr, fault.Excerpt())
	}
	if a.json {
		a.printJSON(map[string]any{"error": map[string]any{"code": cmp.Or(headroom.CodeOf(err), codeFailed), "message": err.Error()}})
	}
	return statusError
}

// loadConfig reads the configuration that the flags and the environment name.
func (a *app) loadConfig() (*config.Config, error) {
	path := cmp.Or(a.config, a.env("HEADROOM_CONFIG"))
	if path == "" {
		return config.Default(), nil
	}
	return config.Load(path)
}

// withEngine opens the store, lets use work with an engine on it, and closes it.
func (a *app) withEngine(ctx context.Context, cfg *config.Config, use func(*headroom.Engine) error) error {
	return a.withStore(ctx, cfg, func(store headroom.Store) error {
		for _, w := range cfg.Catalog.Warnings() {
			fmt.Fprintf(a.stderr, "headroom: warning: %s\n", printable(w))
		}
		engine, err := headroom.New(store, cfg.Catalog, headroom.Options{Clock: a.now, Logger: a.logger()})
		if err != nil {
			return err
		}
		return use(engine)
	})
}

func (a *app) withStore(ctx context.Context, cfg *config.Config, use func(headroom.Store) error) error {
	store, err := a.openStore(ctx, cfg)
	if err != nil {
		return err
	}
	err = use(store)
	if closing := store.Close(); closing != nil {
		return errors.Join(err, closing)
	}
	return err
}

var negative = regexp.MustCompile(`in (-[0-9.]+)$`)

// flagError explains what becomes of a negative number.
func flagError(_ *cobra.Command, err error) error {
	if m := negative.FindStringSubmatch(err.Error()); m != nil {
		return usageError("%s is negative: want at least 0", m[1])
	}
	return usageError("%v", err)
}

// usageError is a fault in what was typed.
func usageError(format string, args ...any) error {
	return headroom.Errorf(headroom.Invalid, nil, format, args...)
}

// group is a verb that only has verbs of its own.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError("a verb is missing: see \"%s --help\"", cmd.CommandPath())
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// knownVerb is for commands that have verbs: an argument that reaches one is none of them.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("unknown verb %q: see \"%s --help\"", args[0], cmd.CommandPath())
	}
	return nil
}

// arguments checks their number and names what is missing. Names in brackets may be left out.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names) && names[len(args)][0] != '[':
			return usageError("%s is missing: %s", names[len(args)], cmd.UseLine())
		case len(args) > len(names):
			return usageError("%q is one argument too many: %s", args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// parseUnits reads a cost or a limit.
func parseUnits(what, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, usageError("%s %s is beyond int64", what, text)
	case err != nil:
		return 0, usageError("%s %q: want a whole number", what, text)
	}
	return n, nil
}

// parseTime reads an instant, or a day in UTC.
func parseTime(what, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usageError("%s %q: want a time like 2026-05-31T23:59:59Z or a day like 2026-05-31", what, text)
}

// timeFlag is a flag that is an instant; zero if it is not given.
type timeFlag struct {
	name string
	time.Time
}

func (f *timeFlag) Set(text string) (err error) {
	f.Time, err = parseTime("--"+f.name, text)
	return err
}

func (f *timeFlag) Type() string { return "TIME" }

func (f *timeFlag) String() string {
	if f.IsZero() {
		return ""
	}
	return f.Format(time.RFC3339)
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return cmp.Or(info.Main.Version, "(devel)")
}
