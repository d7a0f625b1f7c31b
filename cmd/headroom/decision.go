package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/config"
)

// spending holds the flags that verbs which ask for a decision have in common.
type spending struct {
	request headroom.Request
	at      timeFlag
	costs   []string // METER=UNITS, if there are several meters
}

// flags adds the flags of a verb that may charge. Its caller may know the subject's plan.
func (s *spending) flags(cmd *cobra.Command) {
	s.operationFlags(cmd)
	planFlag(cmd, &s.request.Plan)
}

func planFlag(cmd *cobra.Command, plan *string) {
	cmd.Flags().StringVar(plan, "plan", "", "plan for a subject that has none stored (default: the\nconfiguration's default plan)")
}

// atUsage describes --at.
const atUsage = "take this for the current time, in place of every clock; for trials"

func (s *spending) operationFlags(cmd *cobra.Command) {
	s.at.name = "at"
	meterFlag(cmd, &s.request.Meter)
	cmd.Flags().StringVar(&s.request.Operation, "operation", "", "id of the work")
	cmd.Flags().Var(&s.at, "at", atUsage)
}

// overFlag adds --over. The function that it returns reads the flag into the request.
func (s *spending) overFlag(cmd *cobra.Command) (read func() error) {
	var over string
	cmd.Flags().StringVar(&over, "over", "refuse", "what to do if the cost does not fit: refuse, or record it past\nthe limit")
	return func() error {
		switch over {
		case "refuse":
		case "record":
			s.request.Over = headroom.RecordOverLimit
		default:
			return usageError("--over %q: want refuse or record", over)
		}
		return nil
	}
}

// leastFlag adds --at-least.
func (s *spending) leastFlag(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&s.request.AtLeast, "at-least", 0, "take as many units as there are, if there are so many\n(default: the whole cost, or nothing)")
}

// needed returns an error if a flag was not given. why says what the flag is for.
func needed(cmd *cobra.Command, flag, why string) error {
	if cmd.Flags().Changed(flag) {
		return nil
	}
	return usageError("--%s is missing: %s", flag, why)
}

// lastsFlag is a flag whose value is a duration.
type lastsFlag struct {
	name string
	time.Duration
}

func (f *lastsFlag) Set(text string) (err error) {
	if f.Duration, err = config.ParseDuration(text); err != nil {
		return usageError("--%s %q: want a duration like 2h, 90m or 30d", f.name, text)
	}
	return nil
}

func (f *lastsFlag) Type() string { return "DURATION" }

func (f *lastsFlag) String() string {
	if f.Duration == 0 {
		return ""
	}
	return f.Duration.String()
}

// answer is a decision, and what else a verb knows about it.
type answer struct {
	headroom.Decision
	expires time.Time // when the hold or the grant ends; zero if there is none
	note    string    // what else a person should know
	asked   int64     // what was asked for, if fewer units were admitted
}

// said has the words in which a verb tells what it did.
type said struct {
	done  string // it was done now
	again string // it was done before, and this is a repeat
}

// ask asks the engine for one decision.
type ask func(context.Context, *headroom.Engine, headroom.Request) (answer, error)

// plainly turns a method of the engine into an ask.
func plainly(method func(*headroom.Engine, context.Context, headroom.Request) (headroom.Decision, error)) ask {
	return func(ctx context.Context, e *headroom.Engine, r headroom.Request) (answer, error) {
		d, err := method(e, ctx, r)
		return answer{Decision: d}, err
	}
}

// decide asks the engine and prints its answer. args are the subject and, if the verb takes one,
// the cost.
func (a *app) decide(cmd *cobra.Command, args []string, s *spending, words said, ask ask) error {
	cfg, r, err := a.asked(args, s)
	if err != nil {
		return err
	}
	return a.withEngine(cmd.Context(), cfg, func(engine *headroom.Engine) error {
		d, err := ask(cmd.Context(), engine, r)
		if err != nil {
			return err
		}
		if d.Allowed && r.AtLeast > 0 && d.Cost < r.Cost {
			d.asked = r.Cost
		}
		if a.json {
			a.printJSON(decisionJSON(d))
		} else {
			fmt.Fprintln(a.stdout, strings.Join(sentences(words, r.Meter, d), "\n"))
		}
		if !d.Allowed {
			return errRefused
		}
		return nil
	})
}

// asked reads the configuration and builds the request.
func (a *app) asked(args []string, s *spending) (*config.Config, headroom.Request, error) {
	r := s.request
	r.Subject, r.Now = args[0], s.at.Time
	cfg, err := a.loadConfig()
	switch {
	case err != nil:
	case len(s.costs) > 0:
		var all []headroom.Amount
		if all, err = parseAmounts("--cost", s.costs); err == nil {
			r.Meter, r.Cost, r.More = all[0].Meter, all[0].Cost, all[1:]
		}
	case len(args) > 1:
		r.Cost, err = parseUnits("cost", args[1])
	}
	return cfg, r, err
}

type jsonDecision struct {
	Allowed   bool            `json:"allowed"`
	Reason    headroom.Reason `json:"reason"`
	Replay    bool            `json:"replay"`
	Plan      string          `json:"plan"`
	Cost      int64           `json:"cost"`
	LimitName string          `json:"limit_name"`
	Used      int64           `json:"used"`
	Held      int64           `json:"held"`
	Limit     *int64          `json:"limit"`
	Remaining *int64          `json:"remaining"`
	Window    *jsonWindow     `json:"window"` // null if there is no limit
	Granted   int64           `json:"granted"`
	Live      bool            `json:"live"` // a hold of the operation is live
	Expires   *time.Time      `json:"expires,omitempty"`
	Unseen    bool            `json:"unseen"` // nothing is stored of the subject in this meter
	Limits    []jsonAsked     `json:"limits"`
	Crossed   []jsonNotice    `json:"crossed"`

	// Unremembered says that the charge has no operation id, so that a repeat would charge again.
	Unremembered bool `json:"unremembered,omitempty"`

	// Parts has an entry for each meter, if there are several. OfMeter is the one whose figures
	// stand outside.
	OfMeter string     `json:"of_meter,omitempty"`
	Parts   []jsonPart `json:"parts,omitempty"`
}

// jsonLimit says how much of a limit is used, and how much remains.
type jsonLimit struct {
	Name      string     `json:"name"`
	Mode      string     `json:"mode"`
	Window    jsonWindow `json:"window"`
	Used      int64      `json:"used"`
	Held      int64      `json:"held"`
	Limit     *int64     `json:"limit"`
	Remaining *int64     `json:"remaining"`
}

// jsonAsked is a limit, and whether the cost that was asked about goes over it.
type jsonAsked struct {
	jsonLimit
	Over bool `json:"over"`
}

type jsonNotice struct {
	ID      string     `json:"id"`
	Limit   string     `json:"limit"`
	Percent int        `json:"percent"`
	Window  jsonWindow `json:"window"`
}

func decisionJSON(d answer) jsonDecision {
	j := jsonDecision{
		Allowed: d.Allowed, Reason: d.Reason, Replay: d.Replay, Plan: d.Plan, Cost: d.Cost, LimitName: d.LimitName,
		Used: d.Used, Held: d.Held, Limit: unlessUnlimited(d.Limit, d.Limit), Remaining: unlessUnlimited(d.Remaining, d.Limit),
		Granted: d.Granted, Live: d.Live, Unseen: d.Unseen, Limits: []jsonAsked{}, Crossed: []jsonNotice{}, Unremembered: d.Unremembered, Parts: partsJSON(d),
	}
	if len(d.Parts) > 0 {
		j.OfMeter = d.Meter
	}
	if !d.Window.IsZero() {
		w := windowJSON(d.Window)
		j.Window = &w
	}
	if !d.expires.IsZero() {
		j.Expires = &d.expires
	}
	for _, l := range d.Limits {
		j.Limits = append(j.Limits, jsonAsked{limitJSON(l), l.Over})
	}
	for _, n := range d.Crossed {
		j.Crossed = append(j.Crossed, jsonNotice{ID: n.ID, Limit: n.Limit, Percent: n.Percent, Window: windowJSON(n.Window)})
	}
	return j
}

func limitJSON(l headroom.LimitState) jsonLimit {
	return jsonLimit{
		Name: l.Name, Mode: l.Mode.String(), Window: windowJSON(l.Window), Used: l.Used, Held: l.Held,
		Limit: unlessUnlimited(l.Limit, l.Limit), Remaining: unlessUnlimited(l.Remaining, l.Limit),
	}
}

// sentence puts a decision into words.
func sentence(words said, meter string, d answer) string {
	cost := thousands(d.Cost) + " " + printable(meter)
	if d.asked > 0 {
		cost = thousands(d.Cost) + " of " + thousands(d.asked) + " " + printable(meter)
	}
	if d.Replay && (d.Reason == headroom.ReasonAdmitted || d.Reason == headroom.ReasonRecorded) {
		cost += inWindow(d.Window)
	}
	if !d.expires.IsZero() {
		cost += " until " + instant(d.expires)
	}
	if d.Replay {
		return fmt.Sprintf("%s: %s; today %s%s", words.again, cost, figures(d.Decision), notes(d))
	}
	stand := figures(d.Decision)
	if !d.Window.IsZero() {
		stand += inWindow(d.Window)
		if len(d.Limits) > 1 {
			stand += " (limit " + d.LimitName + ")"
		}
		stand += ", which ends " + instant(d.Window.End)
	}
	stand += notes(d)
	switch {
	case d.Reason == headroom.ReasonNeverFits:
		return fmt.Sprintf("refused: %s do not fit the limit in any window; %s", cost, stand)
	case d.Reason == headroom.ReasonRecorded:
		return fmt.Sprintf("recorded past the limit: %s; %s", cost, stand)
	case !d.Allowed:
		return fmt.Sprintf("refused: %s; %s", cost, stand)
	}
	return fmt.Sprintf("%s: %s; %s", words.done, cost, stand)
}

func inWindow(w headroom.Window) string {
	if w.IsZero() {
		return ""
	}
	return " in " + w.Key
}

// figures says how much of the strictest limit is used, and how much remains.
func figures(d headroom.Decision) string {
	if d.Window.IsZero() {
		return "there is no limit"
	}
	return counts(d.Used, d.Held, d.Limit, d.Remaining)
}

func counts(used, held, limit, remaining int64) string {
	text := thousands(used)
	if limit != headroom.Unlimited {
		text += " of " + thousands(limit)
	}
	text += " used"
	if held > 0 {
		text += ", " + thousands(held) + " held"
	}
	if limit == headroom.Unlimited {
		return text + ", no limit"
	}
	return text + ", " + thousands(remaining) + " remain"
}

// notes says what else a person should know about a decision.
func notes(d answer) string {
	var b strings.Builder
	if d.note != "" {
		b.WriteString("; " + d.note)
	}
	if d.Unremembered {
		b.WriteString("; it has no operation id, so a repeat charges again")
	}
	if d.Granted > 0 {
		fmt.Fprintf(&b, "; grants have %s more", thousands(d.Granted))
	}
	if d.Unseen {
		b.WriteString("; nothing is stored of this subject")
	}
	for _, l := range d.Limits {
		switch {
		case l.Over && l.Mode == headroom.Shadow:
			fmt.Fprintf(&b, "; the shadow limit %s would have refused it (%s of %s used)", l.Name, thousands(l.Used), thousands(l.Limit))
		case l.Over:
			fmt.Fprintf(&b, "; over the soft limit %s (%s of %s used)", l.Name, thousands(l.Used), thousands(l.Limit))
		}
	}
	for _, n := range d.Crossed {
		fmt.Fprintf(&b, "; crossed %d %% of limit %s", n.Percent, n.Limit)
	}
	return b.String()
}
