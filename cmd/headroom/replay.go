package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
	"github.com/lumcast/headroom/replay"
)

// replayFlags are the settings of one replay.
type replayFlags struct {
	meter   string
	limit   string
	workers int
	top     int
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE.csv[.gz]",
		Short: "Run a log of finished work through the quota",
		Long: `Run a log of finished work through the quota, each row at its own time, and sum up the result.
The file is CSV, and may be compressed with gzip. A - is standard input. The first line names
the columns, in any order. There may be others too:

  completed_at       when the work was finished, like 2026-05-31T23:59:59Z
  subject            who is charged
  operation          id of the work, which is charged once
  quality            class of the work in the price list
  duration_seconds   length of the work, in the unit of the price list

The rows of a subject are charged in the order of the file. Rows of different subjects are
charged at the same time. It is safe to stop a replay, or to run it twice. A row that was
charged before counts as "replayed". A row whose window has closed for its subject counts as
"late". Neither is charged again. A bad row is reported on stderr, counted as an error, and
skipped.

The exit status is 0 if the whole file was read, whatever was refused. It is 2 if the file could
not be read to its end, or if the store failed for good. The summary is printed in any case, and
after an interrupt too.`,
		Example: `  headroom replay usage.csv.gz --store memory:
  headroom replay usage.csv --limit 500 --store embedded:trial
  zcat usage-*.csv.gz | headroom replay - --json --store memory:`,
		Args: arguments("FILE.csv"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.replay(cmd.Context(), args[0], f)
		},
	}
	meterFlag(cmd, &f.meter)
	cmd.Flags().StringVar(&f.limit, "limit", "", "units for each limit of the meter, in place of the\nconfiguration's")
	cmd.Flags().IntVar(&f.workers, "workers", replay.DefaultWorkers, "how many rows to charge at the same time")
	cmd.Flags().IntVar(&f.top, "top", 10, "how many of the heaviest subjects to show")
	return cmd
}

func (a *app) replay(ctx context.Context, path string, f replayFlags) (err error) {
	cfg, opts, err := a.replayOptions(f)
	if err != nil {
		return err
	}
	input, rows, err := a.openLog(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, input.Close()) }()
	log, err := replay.NewReader(input)
	if err != nil {
		return usageError("%s: %v", path, err)
	}
	return a.withEngine(ctx, cfg, func(engine *headroom.Engine) error {
		done := a.watch(&opts, rows)
		start := time.Now()
		sum, err := replay.Run(ctx, engine, log, opts)
		took := time.Since(start)
		done()
		a.printReplay(sum, took, f)
		switch {
		case errors.Is(err, context.Canceled):
			return headroom.Errorf(codeInterrupted, nil,
				"interrupted after %s; what is charged stays charged, and a replay from the start is safe", count(sum.Rows, "row"))
		case err != nil:
			return fmt.Errorf("stopped after %s; a replay from the start is safe: %w", count(sum.Rows, "row"), err)
		}
		return nil
	})
}

func (a *app) replayOptions(f replayFlags) (*config.Config, replay.Options, error) {
	opts := replay.Options{Meter: f.meter, Workers: f.workers}
	if f.workers < 1 {
		return nil, opts, usageError("--workers %d: want at least 1", f.workers)
	}
	if f.top < 0 {
		return nil, opts, usageError("--top %d: want at least 0", f.top)
	}
	cfg, err := a.loadConfig()
	if err != nil {
		return nil, opts, err
	}
	if opts.Prices, err = cfg.Catalog.Prices(f.meter); err != nil {
		return nil, opts, err
	}
	if f.limit != "" {
		units, err := parseUnits("--limit", f.limit)
		if err != nil {
			return nil, opts, err
		}
		if cfg.Catalog, err = cfg.Catalog.WithUnits(f.meter, units); err != nil {
			return nil, opts, err
		}
	}
	if window, horizon := shortestWindow(cfg.Catalog, f.meter), cfg.Catalog.Horizon(f.meter); horizon < window {
		return nil, opts, usageError("the horizon of %s is shorter than a window, so a second replay would not know what the first has charged; raise it to %s or more",
			span(horizon), span(window))
	}
	return cfg, opts, nil
}

// shortestWindow returns for how long a replay needs its ids to be remembered. Once the shortest of
// its windows has closed, a row is late. Until then its id must be known.
func shortestWindow(c *headroom.Catalog, meter string) (shortest time.Duration) {
	for _, p := range periods(c, meter) {
		// The windows of one period differ in length, by a leap day or a change of clocks. The longest
		// counts.
		var longest time.Duration
		w := p.At(time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC))
		for range 60 {
			longest = max(longest, w.End.Sub(w.Start))
			w = p.At(w.End)
		}
		if shortest == 0 || longest < shortest {
			shortest = longest
		}
	}
	return shortest
}

// openLog opens the log. It counts the rows if there will be a progress bar.
func (a *app) openLog(path string) (log io.ReadCloser, rows int64, err error) {
	if path == "-" {
		return io.NopCloser(a.stdin), unknownRows, nil
	}
	if isTerminal(unscreened(a.stderr)) {
		rows = countRows(path)
	}
	file, err := openFile(path)
	return file, rows, err
}

func openFile(path string) (io.ReadCloser, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, usageError("the log cannot be read: %v", err)
	}
	return file, nil
}

const (
	unknownRows  = -1
	maxCountable = 256 << 20 // bytes; a larger file is not read twice for the sake of the bar
)

// countRows returns the number of rows. It is unknownRows if the file cannot be read twice, or if
// that would take long.
func countRows(path string) int64 {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxCountable {
		return unknownRows
	}
	file, err := os.Open(path)
	if err != nil {
		return unknownRows
	}
	defer func() { _ = file.Close() }() // it was only read
	log, err := replay.NewReader(file)
	if err != nil {
		return unknownRows
	}
	for rows := int64(0); ; rows++ {
		_, err := log.Next()
		var bad *replay.BadRow
		switch {
		case err == io.EOF:
			return rows
		case err != nil && !errors.As(err, &bad):
			return unknownRows
		}
	}
}

// watch makes a replay with opts report bad rows on stderr, and show a progress bar if stderr is a
// terminal. The function that it returns removes the bar.
func (a *app) watch(opts *replay.Options, rows int64) (done func()) {
	opts.Bad = func(row *replay.BadRow) { a.tell("headroom: %v\n", row) }
	if !isTerminal(unscreened(a.stderr)) {
		return func() {}
	}
	bar := progressbar.NewOptions64(rows,
		progressbar.OptionSetWriter(unscreened(a.stderr)),
		progressbar.OptionSetDescription("replaying"),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("rows"),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	opts.Done = func() { _ = bar.Add(1) } // if the bar cannot be drawn, the replay still goes on
	opts.Bad = func(row *replay.BadRow) {
		_ = bar.Clear()
		a.tell("headroom: %v\n", row)
	}
	return func() { _ = bar.Finish() }
}
