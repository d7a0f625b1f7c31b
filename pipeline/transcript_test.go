package pipeline

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/transitions.txt anew")

// since writes a time as how long it is after the first message.
func since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Sub(monday).Truncate(time.Second).String()
}

// recordText is all of the record of the job.
func (w *world) recordText() string {
	j, found, _ := w.jobs.Get(context.Background(), jobA)
	if !found {
		return "none"
	}
	return fmt.Sprintf("%s %s attempt=%d returns=%d %s %vs cost=%d plan=%s held=%t op=%q week=%s %s %q requested %s started %s finished %s updated %s",
		j.Status, j.Charge, j.Attempt, j.Returns, j.Class, j.Seconds, j.Cost, j.Plan, j.Held, j.Operation, j.Week, j.Decision, j.Reason,
		since(j.RequestedAt), since(j.StartedAt), since(j.FinishedAt), since(j.UpdatedAt))
}

// TestTranscriptOfEachTransition shows what a handler asks and writes, what it logs and counts, and
// what the record is after it. A change of any of these is a change of the transcript, to be read:
// go test ./pipeline -run TestTranscriptOfEachTransition -update
func TestTranscriptOfEachTransition(t *testing.T) {
	var all strings.Builder
	transit(t, func(t *testing.T, opts Options, s stand, h happening) {
		var log strings.Builder
		opts.Namespace = "Headroom"
		opts.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "_aws" || a.Key == "Latency" || a.Key == "time" || a.Key == "user" || a.Key == "level" || a.Value.String() == "0" || a.Value.String() == "" {
				return slog.Attr{}
			}
			return a
		}}))
		w := stoodAt(t, opts, s, h)
		before := w.recordText()
		log.Reset()
		var calls []string
		w.wire.trouble = func(call string) fault {
			calls = append(calls, call)
			return fault{}
		}
		err := h.do(w)
		fmt.Fprintf(&all, "%s: %s\n  calls  %s\n", strings.TrimPrefix(strings.TrimPrefix(t.Name(), "TestTranscriptOfEachTransition/"), "hold/"), w.cell(), strings.Join(calls, " "))
		for line := range strings.Lines(log.String()) {
			fmt.Fprintf(&all, "  log    %s", line)
		}
		if err != nil {
			fmt.Fprintf(&all, "  error  %v\n", err)
		}
		if after := w.recordText(); after != before {
			fmt.Fprintf(&all, "  record %s\n", after)
		}
		if n := len(w.jobs.jobs); n > 1 {
			t.Errorf("%d jobs have records", n)
		}
	})
	const file = "testdata/transitions.txt"
	if *update {
		if err := os.WriteFile(file, []byte(all.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	have, wanted := strings.Split(all.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(have), len(wanted)) {
		if i >= len(have) || i >= len(wanted) || have[i] != wanted[i] {
			t.Fatalf("from line %d on the transcript differs:\n%s\nwant\n%s", i+1, strings.Join(have[max(0, min(len(have), i)-4):min(len(have), i+3)], "\n"), strings.Join(wanted[max(0, min(len(wanted), i)-4):min(len(wanted), i+3)], "\n"))
		}
	}
}
