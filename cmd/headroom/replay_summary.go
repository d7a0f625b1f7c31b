package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lumcast/headroom/replay"
)

func (a *app) printReplay(sum replay.Summary, took time.Duration, f replayFlags) {
	if a.json {
		a.printJSON(struct {
			Rows     int64   `json:"rows"`
			Admitted int64   `json:"admitted"`
			Refused  int64   `json:"refused"`
			Replayed int64   `json:"replayed"`
			Late     int64   `json:"late"`
			Charged  int64   `json:"charged"`
			Subjects int     `json:"subjects"`
			Windows  int     `json:"windows"`
			Errors   int64   `json:"errors"`
			Seconds  float64 `json:"seconds"`
		}{
			sum.Rows, sum.Admitted, sum.Refused, sum.Replayed, sum.Late, sum.Charged,
			len(sum.Subjects), sum.ChargedWindows(), sum.Errors, math.Round(took.Seconds()*1000) / 1000,
		})
		return
	}
	unit := printable(f.meter)
	fmt.Fprintf(a.stdout, "%s of %s in %.1f s",
		count(sum.Rows, "row"), count(int64(len(sum.Subjects)), "subject"), took.Seconds())
	if took > 0 && sum.Rows > 0 {
		fmt.Fprintf(a.stdout, " (%s rows/s)", thousands(int64(float64(sum.Rows)/took.Seconds())))
	}
	fmt.Fprint(a.stdout, "\n\n")
	line := func(name string, rows int64, note string) []string {
		return []string{name, thousands(rows), percent(rows, sum.Rows), note}
	}
	table(a.stdout, "lrrl", [][]string{
		line("admitted", sum.Admitted, thousands(sum.Charged)+" "+unit+" charged"),
		line("refused", sum.Refused, thousands(sum.RefusedUnits)+" "+unit+" refused"+tooGreat(sum.NeverFit)),
		line("replayed", sum.Replayed, ""),
		line("late", sum.Late, ""),
		line("errors", sum.Errors, ""),
	})
	a.printWindows(sum, unit)
	a.printHeaviest(sum, unit, f.top)
}

// printWindows draws what was charged in each window, from the first charge to the last.
func (a *app) printWindows(sum replay.Summary, unit string) {
	idle := func(w replay.WindowTally) bool { return w.Charged == 0 }
	windows := sum.Windows
	for len(windows) > 0 && idle(windows[0]) {
		windows = windows[1:]
	}
	for len(windows) > 0 && idle(windows[len(windows)-1]) {
		windows = windows[:len(windows)-1]
	}
	if len(windows) == 0 {
		return
	}
	var most int64
	for _, w := range windows {
		most = max(most, w.Charged)
	}
	fmt.Fprintf(a.stdout, "\ncharged in %s, %s to %s, at most %s %s:  ", count(int64(sum.ChargedWindows()), "window"),
		windows[0].Window.Key, windows[len(windows)-1].Window.Key, thousands(most), unit)
	levels := []rune("▁▂▃▄▅▆▇█")
	for _, w := range windows {
		fmt.Fprint(a.stdout, string(levels[int(float64(w.Charged)/float64(most)*float64(len(levels)-1))]))
	}
	fmt.Fprintln(a.stdout)
}

// printHeaviest lists the subjects that asked for the most units.
func (a *app) printHeaviest(sum replay.Summary, unit string, top int) {
	if top == 0 || sum.Asked() == 0 {
		return
	}
	shown := sum.Subjects[:min(top, len(sum.Subjects))]
	rows := [][]string{{"heaviest subjects", unit + " charged", "refused", "share", ""}}
	for _, s := range shown {
		rows = append(rows, []string{
			printable(s.Subject), thousands(s.Charged), thousands(s.RefusedUnits), percent(s.Asked(), sum.Asked()),
			strings.TrimRight(bar(s.Asked(), shown[0].Asked(), 20), "░"),
		})
	}
	fmt.Fprintln(a.stdout)
	table(a.stdout, "lrrrl", rows)
}

// tooGreat counts the refused rows that no window could have admitted.
func tooGreat(rows int64) string {
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf(", %s greater than the limit", count(rows, "row"))
}

// count formats a number of things: "1 row", "2 rows".
func count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return thousands(n) + " " + thing
}
