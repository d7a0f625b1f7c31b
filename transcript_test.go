package headroom_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lumcast/headroom"
	"github.com/lumcast/headroom/memstore"
)

var update = flag.Bool("update", false, "write the transcripts in testdata anew")

// TestTranscripts plays the stories in testdata/transcripts and compares what happens with what the
// files say. README.txt beside them tells how to read them. With -update it writes what happens.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d stories, %v", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) == "README.txt" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			told := play(t, string(text))
			switch {
			case told == string(text):
			case *update:
				if err := os.WriteFile(file, []byte(told), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s does not say what happens. If what happens is right, run: go test . -run TestTranscripts -update\n%s", file, firstDifference(told, string(text)))
			}
		})
	}
}

// firstDifference shows the first lines in which two texts differ.
func firstDifference(got, want string) string {
	is, was := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range is {
		if i >= len(was) || is[i] != was[i] {
			return fmt.Sprintf("line %d\n got %q\nwant %q", i+1, is[i], append(was, "the end")[min(i, len(was))])
		}
	}
	return fmt.Sprintf("line %d: it ends early", len(is))
}

// play plays a story. It returns the story with what happens at each command, which begins with ">
// ".
func play(t *testing.T, text string) string {
	s := &story{t: t, plans: map[string][]headroom.Limit{}}
	var told strings.Builder
	for line := range strings.Lines(text) {
		command, is := strings.CutPrefix(line, "> ")
		switch {
		case is:
			told.WriteString(line)
			s.out.Reset()
			s.do(strings.Fields(command))
			told.WriteString(dates.ReplaceAllStringFunc(s.out.String(), dated))
		case !strings.HasPrefix(line, "    "):
			told.WriteString(line)
		}
	}
	return told.String()
}

// dates are numbers of seconds in the text of a record. A reader would rather have a date.
var dates = regexp.MustCompile(`[:@=x]1[789]\d{8}\b`)

func dated(number string) string {
	n, _ := strconv.ParseInt(number[1:], 10, 64)
	return number[:1] + time.Unix(n, 0).UTC().Format("2006-01-02T15:04:05Z")
}

// story is a store, an engine on it, and what is told of them.
type story struct {
	t         *testing.T
	plans     map[string][]headroom.Limit
	first     string // the default plan
	now, host time.Time

	store     *memstore.Store
	out       strings.Builder
	meanwhile [][]string // commands of other writers, before the next write
	fails     int        // so many writes from now, the store cannot be reached; 0: it can
}

const meter = "slots"

// engine returns an engine that tells what it does, or one that does not.
func (s *story) engine(silent bool) *headroom.Engine {
	var plans []headroom.Plan
	for name, limits := range s.plans {
		plans = append(plans, headroom.Plan{Name: name, Limits: limits})
	}
	catalog, err := headroom.NewCatalog(s.first, plans, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.store == nil {
		s.store = memstore.New(func() time.Time { return s.now })
	}
	store := headroom.Store(s.store)
	if !silent {
		store = teller{s.store, s}
	}
	e, err := headroom.New(store, catalog, headroom.Options{Clock: func() time.Time { return s.host }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// tell writes lines below a command.
func (s *story) tell(what string, lines ...string) {
	fmt.Fprintf(&s.out, "    %s\n", what)
	for _, line := range lines {
		fmt.Fprintf(&s.out, "        %s\n", line)
	}
}

// teller is a store that tells what it is asked.
type teller struct {
	*memstore.Store
	s *story
}

func (d teller) Load(ctx context.Context, q headroom.Query) (headroom.View, error) {
	v, err := d.Store.Load(ctx, q)
	if err == nil {
		d.s.tell("look at "+q.Key.Subject, d.s.shown(v, q.IDs)...)
	}
	return v, err
}

func (d teller) Commit(ctx context.Context, c headroom.Change) (headroom.View, bool, error) {
	if d.s.fails == 1 {
		d.s.tell("write to " + c.Key.Subject + ": the store cannot be reached")
		return headroom.View{}, false, headroom.Errorf(headroom.Unavailable, nil, "nothing was written")
	}
	d.s.fails = max(0, d.s.fails-1)
	others := d.s.meanwhile
	d.s.meanwhile = nil
	for _, other := range others {
		decision, err := d.s.ask(d.s.engine(true), other)
		d.s.tell("meanwhile, "+strings.Join(other, " ")+": "+said(decision, err), d.s.shown(d.s.stored(other[1]), nil)...)
	}
	before, _ := d.Store.Load(ctx, headroom.Query{Key: c.Key, IDs: c.IDs(), Now: c.Now})
	v, done, err := d.Store.Commit(ctx, c)
	text, _ := c.MarshalText()
	d.s.tell("write to "+c.Key.Subject, strings.Split(strings.TrimSpace(string(text)), "\n")[2:]...)
	if !done {
		d.s.tell("not done: " + c.Unmet(before))
	}
	return v, done, err
}

func (d teller) LoadAll(ctx context.Context, queries []headroom.Query) ([]headroom.View, error) {
	views, err := d.Store.LoadAll(ctx, queries)
	for i, v := range views {
		d.s.tell("look at "+queries[i].Key.Subject+", meter "+queries[i].Key.Meter, d.s.shown(v, queries[i].IDs)...)
	}
	return views, err
}

func (d teller) CommitAll(ctx context.Context, changes []headroom.Change) ([]headroom.View, bool, error) {
	views, done, err := d.Store.CommitAll(ctx, changes)
	for i, c := range changes {
		text, _ := c.MarshalText()
		d.s.tell("write in one step to "+c.Key.Subject+", meter "+c.Key.Meter, strings.Split(strings.TrimSpace(string(text)), "\n")[2:]...)
		if unmet := c.Unmet(views[i]); !done && unmet != "" {
			d.s.tell("not done, in no meter: " + unmet)
		}
	}
	return views, done, err
}

// stored is what is stored of a subject.
func (s *story) stored(subject string) headroom.View {
	v, err := s.store.Load(context.Background(), headroom.Query{Key: headroom.Key{Subject: subject, Meter: meter}, History: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// shown is the text of a view: the state, and what is remembered of ids.
func (s *story) shown(v headroom.View, ids []string) []string {
	text, err := v.State.MarshalText()
	if err != nil {
		s.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	for _, id := range ids {
		if r, found := v.Records[id]; found {
			lines = append(lines, fmt.Sprintf("remembered %q %q", id, r))
		}
	}
	if len(lines) == 0 {
		lines = []string{"nothing"}
	}
	return lines
}

// do obeys a command.
func (s *story) do(words []string) {
	switch words[0] {
	case "plan": // plan NAME LIMIT UNITS [meter NAME] [carry N] [at PERCENT]
		s.plan(words[1:])
	case "clock": // clock TIME: the store's, and the host's
		s.now = s.moment(words[1])
		s.host = s.now
	case "host": // host TIME: the host's clock is another
		s.host = s.moment(words[1])
	case "meanwhile":
		s.meanwhile = append(s.meanwhile, words[1:])
	case "fail": // fail N: from the Nth write on, the store cannot be reached
		s.fails = int(s.number(words[1]))
	case "mend":
		s.fails = 0
	case "stored": // stored SUBJECT
		s.tell("stored of "+words[1], s.shown(s.stored(words[1]), nil)...)
	default:
		decision, err := s.ask(s.engine(false), words)
		s.tell(said(decision, err))
		for _, p := range decision.Parts {
			s.tell("    of " + p.Meter + ": " + said(p.Decision, nil))
		}
	}
}

func (s *story) plan(words []string) {
	period, err := headroom.ParsePeriod(words[1])
	if err != nil {
		s.t.Fatal(err)
	}
	l := headroom.Limit{Meter: meter, Name: words[1], Period: period, Units: s.number(words[2])}
	for i := 3; i+1 < len(words); i += 2 {
		switch words[i] {
		case "carry":
			l.CarryOver = s.number(words[i+1])
		case "meter":
			l.Meter = words[i+1]
		default:
			l.Thresholds = append(l.Thresholds, int(s.number(words[i+1])))
		}
	}
	if s.first == "" {
		s.first = words[0]
	}
	s.plans[words[0]] = append(s.plans[words[0]], l)
}

// ask asks an engine: VERB SUBJECT ID [UNITS] [NAME VALUE]...
func (s *story) ask(e *headroom.Engine, words []string) (headroom.Decision, error) {
	ctx := context.Background()
	if words[0] == "setplan" {
		return headroom.Decision{}, e.SetPlan(ctx, words[1], words[2])
	}
	r := headroom.Request{Subject: words[1], Meter: meter, Operation: words[2]}
	rest := words[3:]
	if len(rest)%2 == 1 {
		r.Cost, rest = s.number(rest[0]), rest[1:]
	}
	said := map[string]string{}
	for i := 0; i < len(rest); i += 2 {
		if name, also := strings.CutPrefix(rest[i], "+"); also {
			r.More = append(r.More, headroom.Amount{Meter: name, Cost: s.number(rest[i+1])})
		}
		said[rest[i]] = rest[i+1]
	}
	if said["policy"] == "record" {
		r.Over = headroom.RecordOverLimit
	}
	if least, ok := said["least"]; ok {
		r.AtLeast = s.number(least)
	}
	if began, ok := said["began"]; ok {
		r.Began = s.moment(began)
	}
	lasts, _ := time.ParseDuration(said["for"])
	switch words[0] {
	case "preflight":
		return e.Preflight(ctx, r)
	case "deduct":
		return e.Deduct(ctx, r)
	case "hold":
		return e.Hold(ctx, r, lasts)
	case "settle":
		return e.Settle(ctx, r)
	case "release":
		return e.Release(ctx, r.Held())
	case "extend":
		return e.Extend(ctx, r.Held(), lasts)
	case "refund":
		return e.Refund(ctx, headroom.RefundRequest{Subject: r.Subject, Meter: meter, ID: words[2], Operation: said["of"], Units: r.Cost})
	case "grant":
		return e.Grant(ctx, headroom.GrantRequest{Subject: r.Subject, Meter: meter, ID: words[2], Units: r.Cost, Lasts: lasts})
	case "within":
		d, err := e.DeductWithin(ctx, said["organisation"], r)
		return d.User, err
	}
	s.t.Fatalf("unknown command %q", words)
	return headroom.Decision{}, nil
}

// said is a decision in words.
func said(d headroom.Decision, err error) string {
	switch {
	case err != nil:
		var failure *headroom.Error
		if !errors.As(err, &failure) {
			return "error: " + err.Error()
		}
		return fmt.Sprintf("error %s: %s", string(failure.Code), failure.Message)
	case d.Reason == "":
		return "done"
	}
	text := map[bool]string{true: "allowed", false: "refused"}[d.Allowed] + ", " + string(d.Reason)
	if d.Replay {
		text += ", a repeat"
	}
	text += fmt.Sprintf(": cost %d in %s; used %d, held %d, limit %d, remaining %d", d.Cost, d.Window.Key, d.Used, d.Held, d.Limit, d.Remaining)
	if d.Granted > 0 {
		text += fmt.Sprintf(", granted %d", d.Granted)
	}
	for _, n := range d.Crossed {
		text += fmt.Sprintf("; crosses %d percent of %q", n.Percent, n.Limit)
	}
	return text
}

func (s *story) moment(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		s.t.Fatal(err)
	}
	return t
}

func (s *story) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}
