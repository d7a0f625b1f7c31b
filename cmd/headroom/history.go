package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

func (a *app) historyCommand() *cobra.Command {
	return a.reading(&cobra.Command{
		Use:   "history SUBJECT",
		Short: "Show what a subject was charged in each of the last windows",
		Long: fmt.Sprintf(`Show for each limit what SUBJECT was charged in the last %d windows, less what was refunded.
Windows in which nothing was charged are left out.

"usage" shows the latest windows, together with what remains now.`, headroom.HistoryWindows),
		Example: `  headroom history alice
  headroom history alice --json`,
	}, historyJSON, func(u headroom.Usage, cfg *config.Config, _ time.Time) {
		a.printHistory(u, periods(cfg.Catalog, u.Meter))
	})
}

type jsonHistory struct {
	Subject string             `json:"subject"`
	Meter   string             `json:"meter"`
	Limits  []jsonLimitHistory `json:"limits"`
}

type jsonLimitHistory struct {
	Name    string      `json:"name"`
	History []jsonTotal `json:"history"`
}

func historyJSON(u headroom.Usage) any {
	j := jsonHistory{Subject: u.Subject, Meter: u.Meter, Limits: []jsonLimitHistory{}}
	for _, l := range u.Limits {
		j.Limits = append(j.Limits, jsonLimitHistory{Name: l.Name, History: totalsJSON(l)})
	}
	return j
}

func (a *app) printHistory(u headroom.Usage, periods map[string]headroom.Period) {
	fmt.Fprintf(a.stdout, "%s, %s\n", printable(u.Subject), printable(u.Meter))
	for _, l := range u.Limits {
		most := l.Used
		for _, t := range l.History {
			most = max(most, t.Units)
		}
		zone := periods[l.Name].Location()
		row := func(w headroom.Window, bar, units string) []string {
			return []string{w.Key, w.Start.In(zone).Format("2 Jan 2006"), bar, units}
		}
		rows := [][]string{row(l.Window, bar(l.Used, most, barWidth), thousands(l.Used)+" so far")}
		for _, t := range l.History {
			if t.Unknown {
				rows = append(rows, row(t.Window, strings.Repeat("?", barWidth), "not known"))
			} else {
				rows = append(rows, row(t.Window, bar(t.Units, most, barWidth), thousands(t.Units)))
			}
		}
		fmt.Fprintf(a.stdout, "\n%s\n", l.Name)
		table(a.stdout, "lrll", rows)
	}
}
