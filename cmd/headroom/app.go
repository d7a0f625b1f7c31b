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

// The exit statuses.
const (
	statusAllowed = 0
	statusRefused = 1
	statusError   = 2
)

// Error codes of this program. All others are the library's.
const (
	codeInterrupted headroom.Code = "interrupted" // a signal came before the work was done
	codeFailed      headroom.Code = "failed"      // another reason, which the message gives
)

// errRefused ends a verb that has already printed its answer, and the answer is no.
var errRefused = errors.New("refused")

// app holds what all verbs share.
type app struct {
	stdin  io.Reader
	stdout *bufio.Writer
	stderr io.Writer
	env    func(string) string
	now    func() time.Time

	// The flags that every verb has.
	store  string
	config string
	json   bool
}

// run is the whole program. It returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	a := &app{
		stdin: stdin, stdout: bufio.NewWriter(&screen{to: stdout}), stderr: &screen{to: stderr},
		env: env, now: time.Now,
	}
	return a.run(args)
}

func (a *app) run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks the program to finish. A second one ends it at once.
	context.AfterFunc(ctx, stop)

	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	// A mistake in the flags is found before --json has been read.
	a.json = a.json || slices.Contains(args, "--json")
	status := a.report(err)
	if err := a.stdout.Flush(); err != nil {
		a.tell("headroom: the answer cannot be written: %v\n", err)
		return statusError
	}
	return status
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "headroom",
		Short: "Enforce quotas: charge exactly once, never over the limit, and never refuse wrongly",
		Long: `Headroom decides whether a subject may spend units of a meter in the current calendar
window, and records what was spent. A subject is a user, an organisation or a key. A meter
is what is counted, such as slots.

The exit status is 0 if the answer is yes or the work is done, 1 if the answer is no, and 2
after an error. An error is one line on stderr. With --json, stdout has it too, as
{"error":{"code","message"}}.`,
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
	flags.StringVar(&a.store, "store", "", "where the state is kept: embedded:DIR, memory: or\ndynamodb:TABLE?region=R&endpoint=URL&ledger=TABLE (default:\n$HEADROOM_STORE, or else embedded: in your data folder)")
	flags.StringVar(&a.config, "config", "", "file with plans and prices, see \"headroom plans check --help\"\n(default: $HEADROOM_CONFIG, or else the built-in plan of\n200 slots a week)")
	flags.BoolVar(&a.json, "json", false, "answer in JSON, with one object on each line")

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
	// If the store does not close after a refusal, err joins both, and that is an error.
	if err == errRefused {
		return statusRefused
	}
	a.tell("headroom: %v\n", err)
	var fault *config.Error
	if errors.As(err, &fault) {
		a.tell("%s\n", fault.Excerpt())
	}
	if a.json {
		a.printJSON(map[string]any{"error": map[string]any{
			"code": cmp.Or(headroom.CodeOf(err), codeFailed), "message": err.Error(),
		}})
	}
	return statusError
}

// tell writes to stderr. If stderr cannot be written to, there is nobody left to tell.
func (a *app) tell(format string, args ...any) { _, _ = fmt.Fprintf(a.stderr, format, args...) }

// loadConfig reads the configuration that the flags or the environment name.
func (a *app) loadConfig() (*config.Config, error) {
	path := cmp.Or(a.config, a.env("HEADROOM_CONFIG"))
	if path == "" {
		return config.Default(), nil
	}
	return config.Load(path)
}

// withEngine opens the store, calls use with an engine on it, and closes the store.
func (a *app) withEngine(ctx context.Context, cfg *config.Config, use func(*headroom.Engine) error) error {
	return a.withStore(ctx, cfg, func(store headroom.Store) error {
		for _, w := range cfg.Catalog.Warnings() {
			a.tell("headroom: warning: %s\n", printable(w))
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

// flagError says what is wrong with a negative number, which the flag package takes for a flag.
func flagError(_ *cobra.Command, err error) error {
	if m := negative.FindStringSubmatch(err.Error()); m != nil {
		return usageError("%s is negative: want at least 0", m[1])
	}
	return usageError("%v", err)
}

// usageError is the error for a mistake in what was typed.
func usageError(format string, args ...any) error {
	return headroom.Errorf(headroom.Invalid, nil, format, args...)
}

// group makes a verb that does nothing but hold other verbs.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: knownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError("a verb is missing; see \"%s --help\"", cmd.CommandPath())
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// knownVerb checks the arguments of a command that holds verbs. Cobra has taken the known verbs
// out, so any argument that is left is an unknown one.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError("unknown verb %q; see \"%s --help\"", args[0], cmd.CommandPath())
	}
	return nil
}

// arguments checks how many arguments there are, and names the first one that is missing. An
// argument whose name is in brackets may be left out.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names) && names[len(args)][0] != '[':
			return usageError("%s is missing; usage: %s", names[len(args)], cmd.UseLine())
		case len(args) > len(names):
			return usageError("%q is one argument too many; usage: %s", args[len(names)], cmd.UseLine())
		}
		return nil
	}
}

// parseUnits reads a number of units, such as a cost or a limit.
func parseUnits(what, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, usageError("%s %s is too large: want at most 9223372036854775807", what, text)
	case err != nil:
		return 0, usageError("%s %q: want a whole number", what, text)
	}
	return n, nil
}

// parseTime reads an instant, or a day, which stands for its first instant in UTC.
func parseTime(what, text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usageError("%s %q: want a time like 2026-05-31T23:59:59Z or a day like 2026-05-31", what, text)
}

// timeFlag is a flag whose value is an instant. It is the zero time if the flag is not given.
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
